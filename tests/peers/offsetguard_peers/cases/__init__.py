"""Cases that tests go through: lists of them, those of the rules, and what texts must look like."""
