"""A server that is DingTalk, WeCom and Feishu to robots, as strict as they are."""
