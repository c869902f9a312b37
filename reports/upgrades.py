"""Records of older schema versions, brought up to date one step at a time; what they lack is empty."""

from collections.abc import Callable
from typing import Any

SCHEMA_VERSION = 7


def _certificates_of_7(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "certificate": {**record["certificate"], "pairs": None},
        "certificates": [{**certificate, "pairs": None} for certificate in record["certificates"]],
    }


# One step for each older version: takes a record of that version, returns one of the next.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    # 2: the population adversary came; data, worst_exact and an attack's record may be null.
    1: lambda record: {**record, "schema_version": 2, "population": None},
    # 3: the publisher's assumptions are listed.
    2: lambda record: {
        **record,
        "schema_version": 3,
        "assumptions": [],
        "release": {**record["release"], "schedule": None},
    },
    # 4: the significance ledger, the fidelity test, what decided, and what is shown beside a bound.
    3: lambda record: {
        **record,
        "schema_version": 4,
        "decided_by": None,
        "fidelity": None,
        "ledger": None,
        "certificates": [],
        "worst_pair": None,
        "certificate": {**record["certificate"], "resolution": None, "agreement": None, "found": None},
        "attacks": [
            {
                **attack,
                "epsilon_lower": {**attack["epsilon_lower"], "kind": "confidence"},
                "model_based": None,
                "estimates": [],
            }
            for attack in record["attacks"]
        ],
    },
    # 5: what an attack keeps of its shadows and says about itself.
    4: lambda record: {
        **record,
        "schema_version": 5,
        "attacks": [{**attack, "kept_bytes": None, "notes": []} for attack in record["attacks"]],
    },
    # 6: whose code drew the releases, a released file, and what the whole function would betray beside listed points.
    5: lambda record: {
        **record,
        "schema_version": 6,
        "implementation": None,
        "released": None,
        "epsilon_everywhere": None,
        "fidelity": None if record["fidelity"] is None else {**record["fidelity"], "source": "sampler"},
    },
    # 7: all that a report shows: curves, the outlook, profiles of a search, the command and the versions.
    6: lambda record: {
        **record,
        "schema_version": 7,
        **_certificates_of_7(record),
        "replacements": None,
        "outlook": None,
        "command": None,
        "versions": {"gpleak": record["gpleak_version"]},
        "attacks": [{**attack, "curve": None} for attack in record["attacks"]],
    },
}
