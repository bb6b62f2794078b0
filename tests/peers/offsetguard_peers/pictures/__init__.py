"""Screenshots, and the pictures of the docs."""

import argparse
from pathlib import Path


def asked_folder(doc: str | None) -> Path:
    """Return the folder that the command line names; `doc`: what `--help` prints."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the pictures go")
    return Path(parser.parse_args().folder)
