"""A record without anything that is a function of the private data, except which of three verdicts it was.

What was measured on the data would betray something of them: exact epsilons, of course, but also the success of
attacks on releases of the data, the p-value of the fidelity test, the added jitter, what a model's adapter noted, and
how long a step took. The seed is left out too: whoever used it for the release as well would give the release's noise
away. What is left depends on public parameters alone, and so is the same for all data with the same verdict.
"""

from typing import Any

# Public parameters and what follows from them alone. What is not named here is dropped: new entries are private.
_KEPT = (
    "schema_version",
    "gpleak_version",
    "versions",
    "verdict",
    "neighbouring",
    "certificate",
    "certificates",
    "assumptions",
    "claimed_epsilon",
    "worst_pair",
)
_EMPTY: dict[str, Any] = {
    "reason": None,
    "decided_by": None,
    "seed": None,
    "replacements": None,
    "data": None,
    "worst_exact": None,
    "records": [],
    "epsilon_everywhere": None,
    "released": None,
    "population": None,
    "fidelity": None,
    "attacks": [],
    "command": None,
    "timings": None,
}


def redacted(record: dict[str, Any]) -> dict[str, Any]:
    """The record for everyone, of the same shape; `render_public` shows it."""
    implementation, ledger, outlook = record["implementation"], record["ledger"], record["outlook"]
    release = {name: value for name, value in record["release"].items() if name != "jitter"}
    return {
        **_EMPTY,
        **{name: record[name] for name in _KEPT},
        "release": release,
        "implementation": None if implementation is None else {**implementation, "notes": []},
        # Who spends what was planned before the data were looked at; which records are attacked was not.
        "ledger": None
        if ledger is None
        else {**ledger, "entries": [{**entry, "record": None} for entry in ledger["entries"]]},
        "outlook": None if outlook is None else {**outlook, "record": None, "refutable": None},
    }
