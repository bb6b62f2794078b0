"""What the fields of a record mean: the comments behind them, of which pages of the documentation are made."""

import inspect
import re

from pydantic import BaseModel

_FIELD = re.compile(r"^    (\w+?)_?: (?:[^#\n]|\n(?!    \w))*  # (.*)$", re.MULTILINE)  # it may go over lines


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return the meaning of each field that has a comment, by its key; those of the bases, too."""
    bases = (base for base in reversed(model.__mro__) if issubclass(base, BaseModel) and base is not BaseModel)
    return {key: meaning for base in bases for key, meaning in _FIELD.findall(inspect.getsource(base))}
