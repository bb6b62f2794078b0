"""Start a cluster from a shell and keep it until Ctrl-C: `python -m offsetguard_peers.rocketmq 5.5.0`."""

import sys
import time

from offsetguard_peers.rocketmq.cluster import VERSIONS, RocketMQCluster


def main() -> None:
    """Print the name server, and the brokers with their folders."""
    version = sys.argv[1] if len(sys.argv) > 1 else VERSIONS[0]
    started = time.monotonic()
    with RocketMQCluster(version, slaves=1) as cluster:
        print(f"RocketMQ {version} ready after {time.monotonic() - started:.1f} s, name server {cluster.namesrv}")
        for broker in cluster.brokers:
            print(f"  {broker.name}-{broker.broker_id} {broker.address} {broker.folder}", flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            print("stopping")


if __name__ == "__main__":
    main()
