"""Where rules and messages find `offsetguard.text`, which lies below them because verdicts have reasons, too."""

from offsetguard.text import format_bytes, format_duration, format_messages, format_moment, named_figures, render_text

__all__ = ["format_bytes", "format_duration", "format_messages", "format_moment", "named_figures", "render_text"]
