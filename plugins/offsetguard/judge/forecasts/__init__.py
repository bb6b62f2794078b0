"""When a backlog will be drained and when messages will be lost; what became of earlier forecasts."""
