"""JUDGE: facts in, findings out. Windows and forecasts, one file per rule, and what rules share (`evidence`)."""
