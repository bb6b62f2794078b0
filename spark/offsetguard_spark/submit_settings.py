"""What spark-submit needs to know of us, as JSON on stdout, for a submitter that may not import Spark code.

`local_master`, `local_conf` and `local_environment` are for a Spark that runs in the submitter's machine alone;
`jars` and `cluster_conf` for a cluster. The job itself then sees PYSPARK_GATEWAY_PORT and sets only what a session may.

Nothing of our Python goes to a cluster's workers: jobs use the DataFrame API only, so no worker starts a Python.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from offsetguard_spark.jars import jar_paths
from offsetguard_spark.session import LOCAL_ENVIRONMENT, local_config, local_master


def submit_settings() -> dict[str, Any]:
    """Return master, configuration, environment and jars by name; fetches the jars when they are not there yet."""
    jars = [str(path) for path in jar_paths("iceberg")]
    return {
        "local_master": local_master(),
        "local_conf": local_config(),
        "local_environment": LOCAL_ENVIRONMENT,
        # Workers fetch them from the driver, which has them in its class path: JDBC asks the class path for drivers.
        "jars": jars,
        "cluster_conf": {"spark.driver.extraClassPath": ":".join(jars), "spark.ui.showConsoleProgress": "false"},
    }


def main() -> int:
    """Print the settings."""
    json.dump(submit_settings(), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
