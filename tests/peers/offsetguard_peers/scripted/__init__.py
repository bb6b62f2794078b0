"""Brokers that play a script over a real socket: for what real ones do not do on demand."""
