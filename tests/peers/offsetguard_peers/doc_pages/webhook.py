"""What docs/webhook.md says of a message's fields: the JSON schema of the envelope."""

import json
from typing import Any

from offsetguard.deliver.messages.cloud_event import CloudEvent


def made() -> str:
    """Return the schema as Markdown."""
    schema = _untitled(CloudEvent.model_json_schema(mode="serialization"))
    return f"## JSON Schema\n\n```json\n{json.dumps(schema, indent=1)}\n```\n"


def _untitled(schema: Any) -> Any:
    """Return a schema without the titles that pydantic makes of names."""
    if isinstance(schema, dict):
        return {key: _untitled(one) for key, one in schema.items() if key != "title" or isinstance(one, dict)}
    return list(map(_untitled, schema)) if isinstance(schema, list) else schema
