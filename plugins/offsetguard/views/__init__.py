"""What pages show and what the same addresses give as data: small records made of published facts and incidents."""
