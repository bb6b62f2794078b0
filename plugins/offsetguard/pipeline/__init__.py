"""The stages that join the layers: judge one interval, deliver what is due."""
