package config

import "testing"

// TestANICHasItsOwnClassOrThatOfItsHost: expressions see the class too, and NCCL_IB_TC may be written with or without the bits of ECN.
func TestANICHasItsOwnClassOrThatOfItsHost(t *testing.T) {
	const src = `
qos "lossless" {
  dscp     = 40
  priority = 5
  ecn      = true
}
qos "bulk" {
  ets = { 0 = 100 }
}
host "a" {
  qos = qos.lossless
  nic "own" {
    netdev = "eth1"
    qos    = qos.bulk
  }
  nic "hosts" { netdev = "eth2" }
  nccl {
    env = { NCCL_IB_TC = qos.lossless.traffic_class, NCCL_IB_SL = qos.lossless.priority }
  }
}
host "b" {
  nic "none" { netdev = "eth1" }
  nic "own" {
    netdev = "eth2"
    qos    = qos.lossless
  }
  nccl {
    env = { NCCL_IB_TC = qos.lossless.dscp * 4 }
  }
}
`
	f, _, d := Load(write(t, "f.hcl", src), Options{})
	if d.HasErrors() {
		t.Fatal(d)
	}
	for at, want := range map[string]string{"a.own": "bulk", "a.hosts": "lossless", "b.none": "", "b.own": "lossless"} {
		for _, h := range f.Hosts {
			for _, n := range h.NICs {
				got := ""
				if n.QoS != nil {
					got = n.QoS.Name
				}
				if n.Ref().String() == at && got != want {
					t.Errorf("%s has %q, wanted %q", at, got, want)
				}
			}
		}
	}
	if tc, ok := f.Host("a").NIC("hosts").QoS.TrafficClass(); tc != 162 || !ok {
		t.Error(tc, ok)
	}
	if tc, ok := f.Host("b").NIC("none").QoS.TrafficClass(); tc != 0 || ok {
		t.Error(tc, ok)
	}
	if env := f.Host("a").NCCL.Env; env["NCCL_IB_TC"] != "162" || env["NCCL_IB_SL"] != "5" {
		t.Error(env)
	}
}
