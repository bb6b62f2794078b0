"""RocketMQ's remoting protocol: sans-I/O codec and connection, and one module with sockets (`client`)."""
