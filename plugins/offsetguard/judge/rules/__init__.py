"""Rules: published facts in, findings out. One rule, one file; its name is the rule's id."""
