"""One collection round of one cluster: plan, ask, and land what answered together with what did not."""
