"""Which networks a container is in, for the partition of docker-compose.yml."""

from ipaddress import IPv4Network

from tools.demo.partition import attached

#: of a container with two networks, one of them with a route that leads nowhere
ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010013AC\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000013AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
eth1\t0006620A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
*\t0006620A\t00000000\t0201\t0\t0\t0\t80FFFFFF\t0\t0\t0
lo\t0000007F\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0
"""


def test_the_networks_of_a_container() -> None:
    assert attached(ROUTES) == [IPv4Network("172.19.0.0/16"), IPv4Network("10.98.6.0/24")]
    assert attached(ROUTES.splitlines()[0]) == []
