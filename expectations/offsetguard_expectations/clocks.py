"""What the invariants about times have in common."""

CLOCK_TOLERANCE_S = 300  # how far a broker's clock may be ahead of ours before its times are of no use
SKEW_TOLERANCE_S = 10  # how far before it is said: ages and lags in time are wrong by as much
CORRECT_THE_CLOCKS = (
    "Compare the clocks of the broker and of the host that runs OffsetGuard (`chronyc tracking`) and correct them."
)
