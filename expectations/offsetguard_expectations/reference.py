"""What docs/invariants.md and assistants are told of an invariant; `python -m` it with ids of invariants."""

import sys

from offsetguard_expectations.invariant import MAX_CORRUPT_SHARE, Agreement, Invariant, ViolationMeans
from offsetguard_expectations.invariants import ALL, Check

_CONSEQUENCES = {
    ViolationMeans.TROUBLE: "the row stays and becomes a finding",
    ViolationMeans.CORRUPT: "the row goes to quarantine",
    ViolationMeans.DEFECT: "nothing is published",
}
_STOPS = f"; nothing is published when more than {MAX_CORRUPT_SHARE:.0%} of the rows break it"


def section_of(invariant: Check) -> str:
    """Return what docs/invariants.md says of an invariant."""
    consequence = _CONSEQUENCES[invariant.violation_means]
    if isinstance(invariant, Invariant) and invariant.violation_means is ViolationMeans.CORRUPT:
        consequence += _STOPS if invariant.stops_publication else "; never stops a publication"
    if isinstance(invariant, Agreement):
        applies_to = "the whole interval"
    else:
        applies_to = "every row" if invariant.applies_when == "TRUE" else f"`{invariant.applies_when}`"
    return f"""\
### {invariant.id}

**{invariant.title}.** Violated: {invariant.violation[0].lower()}{invariant.violation[1:]}.

{invariant.meaning}

- Do next: {invariant.do_next}
- A violation means: **{invariant.violation_means}** ({consequence}). Severity: {invariant.severity}.
- Applies to: {applies_to}
- Holds when: `{invariant.holds_when}`
"""


if __name__ == "__main__":
    sys.stdout.write("\n".join(section_of(one) for one in ALL if one.id in sys.argv[1:]))
