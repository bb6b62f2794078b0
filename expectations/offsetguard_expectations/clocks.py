"""What the invariants about times have in common."""

CLOCK_TOLERANCE_S = 300  # how far a broker's clock may be ahead of ours
CORRECT_THE_CLOCKS = (
    "Compare the clocks of the broker and of the host that runs OffsetGuard (`chronyc tracking`) and correct them."
)
