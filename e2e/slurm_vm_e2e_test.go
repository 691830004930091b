//go:build linux

package e2e

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// slurmGuests is the lab: a cable of the fabric, and one by which Slurm's daemons reach each other.
const slurmGuests = `fabric "lab" {}
host "node1" {
  nic "rail0" { netdev = "eth1" }
  nic "slurm" { netdev = "eth2" }
}
host "node2" {
  nic "rail0" { netdev = "eth1" }
  nic "slurm" { netdev = "eth2" }
}
link "rail0" {
  endpoints = [host.node1.nic.rail0, host.node2.nic.rail0]
  subnet    = "10.50.0.0/24"
}
link "slurm" {
  endpoints = [host.node1.nic.slurm, host.node2.nic.slurm]
  subnet    = "10.77.0.0/24"
}
`

// slurmGuestFabric is what the coordinator on node1 reads.
const slurmGuestFabric = `fabric "way-back" {}
slurm { wave = 2 }
host "node1" {
  nic "rail0" {
    netdev    = "eth1"
    addresses = ["10.50.0.1/24"]
    mtu       = 9000
  }
}
host "node2" {
  nic "rail0" {
    netdev    = "eth1"
    addresses = ["10.50.0.2/24"]
    mtu       = 9000
  }
}
`

// slurmGuestRDMA adds Soft-RoCE to their cable. By Slurm, its ends are changed one after the other.
const slurmGuestRDMA = `fabric "way-back" {}
slurm { wave = 2 }
host "node1" {
  nic "rail0" {
    netdev = "eth1"
    mtu    = 9000
  }
  rxe "rxe0" { nic = nic.rail0 }
}
host "node2" {
  nic "rail0" {
    netdev = "eth1"
    mtu    = 9000
  }
  rxe "rxe0" { nic = nic.rail0 }
}
link "rail0" {
  endpoints = [host.node1.nic.rail0, host.node2.nic.rail0]
  subnet    = "10.50.0.0/24"
}
validate {
  verbs { tests = ["send_lat", "write_bw"] }
}
`

// slurmGuest makes a guest a node of Slurm, as Debian's packages and systemd run it; $1 is its number, and $2 munge's key. slurmd tracks
// processes by control groups, of version 2: trixie's kernel and systemd have no other one.
const slurmGuest = `set -eu
export DEBIAN_FRONTEND=noninteractive
printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d # nothing starts before it is configured
chmod 755 /usr/sbin/policy-rc.d
dpkg --force-depends -i /srv/packages/*.deb >/run/dpkg.log 2>&1 || { tail -20 /run/dpkg.log; exit 1; }
rm /usr/sbin/policy-rc.d
ip link set eth2 up
ip addr add "10.77.0.$1/24" dev eth2
printf '127.0.0.1 localhost\n10.77.0.1 node1\n10.77.0.2 node2\n' > /etc/hosts
printf '%s' "$2" | install -o munge -g munge -m 400 /dev/stdin /etc/munge/munge.key
echo CgroupPlugin=cgroup/v2 > /etc/slurm/cgroup.conf
cat > /etc/slurm/slurm.conf <<EOF
ClusterName=test
SlurmctldHost=node1
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SlurmdTimeout=600
NodeName=node1,node2 CPUs=4
PartitionName=all Nodes=ALL Default=YES
EOF
install -d -o slurm -g slurm /var/lib/slurm/slurmctld
systemctl start munge
[ "$1" != 1 ] || systemctl start slurmctld
systemctl start slurmd
`

// slurmDebs are the packages that a guest needs for Slurm, beside those of the image. What only Slurm's plug-ins for MPI need is left out.
var slurmDebs = []string{"slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge", "libmunge2", "libb64-0d", "libgcrypt20", "libgpg-error0",
	"libhwloc15", "libjson-c5", "libjwt2", "libjansson4", "libnuma1", "libreadline8t64", "readline-common", "libyaml-0-2", "ucf", "sensible-utils", "adduser"}

// slurmMachines are two guests with systemd that are nodes of a Slurm cluster. The controller and the coordinator are on node1.
type slurmMachines struct{ slurmCluster }

func slurmMachinesUp(t *testing.T) slurmMachines {
	t.Helper()
	debs := packagesOf(t, "trixie", slurmDebs...)
	c := slurmMachines{slurmCluster{fabric: filepath.Join(t.TempDir(), "guests.hcl")}}
	if err := os.WriteFile(c.fabric, []byte(slurmGuests), 0o600); err != nil {
		t.Fatal(err)
	}
	c.state = vmLabFor(t, c.fabric)
	key := rand.Text() + rand.Text()
	for i, host := range []string{"node1", "node2"} {
		repository(t, c.state, c.fabric, host, debs)
		c.on(t, host, "", slurmGuest, strconv.Itoa(i+1), key)
	}
	c.idle(t)
	program, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	c.on(t, "node1", string(program), "cat > /usr/bin/fabricform; chmod 755 /usr/bin/fabricform")
	c.on(t, "node1", slurmGuestFabric, "cat > /root/f.hcl")
	return c
}

// on runs a program of sh on a guest, with arguments, and returns what it said.
func (c slurmMachines) on(t *testing.T, host, stdin, program string, args ...string) string {
	t.Helper()
	return c.within(t, "600", host, stdin, program, args...)
}

// idle waits until both nodes are, and no job is left.
func (c slurmMachines) idle(t *testing.T) {
	t.Helper()
	c.on(t, "node1", "", `until [ "$(sinfo -h -o %D -t idle)" = 2 ] && ! squeue -h | grep -q .; do sleep 1; done`)
}

// amid starts an apply, and stops its coordinator as soon as both hosts are changed and none has committed.
func (c slurmMachines) amid(t *testing.T) {
	t.Helper()
	c.on(t, "node1", "", `rm -f /run/code
setsid sh -c 'fabricform apply -auto-approve -no-verify -lease=40s /root/f.hcl; echo $? > /run/code' >/run/apply.log 2>&1 </dev/null &
until p=$(pgrep -f "^fabricform [a]pply") && ping -c1 -W1 -q 10.50.0.2 >/dev/null 2>&1; do [ ! -e /run/code ] || { cat /run/apply.log; exit 1; }; done
kill -STOP $p`)
	for _, host := range []string{"node1", "node2"} {
		watch := c.on(t, host, "", `cat /proc/$(pgrep -f "guard watc[h]")/cgroup; systemctl list-timers --all 'fabricform-0*' | grep -c fabricform-0`)
		if watch != "0::/fabricform\n1\n" {
			t.Errorf("host %s: want the guardian in the control group /fabricform, and one systemd timer; got %q", host, watch)
		}
	}
}

// TestSlurmStepsEndUnderSystemd: in the middle of an apply, its step is cancelled, slurmstepd is killed or slurmd is restarted, and the leases are
// not renewed. One guardian has left the step's control group, and process 1 starts the other: each host reverts when its lease expires.
func TestSlurmStepsEndUnderSystemd(t *testing.T) {
	long(t)
	c := slurmMachinesUp(t)
	hosts := []string{"node1", "node2"}
	c.on(t, "node1", "", "fabricform plan -detailed-exitcode /root/f.hcl; [ $? = 2 ]")
	c.idle(t)
	const ended = `while pgrep -f "^/var/lib/fabricform/helpers/[^ ]* agent" >/dev/null; do sleep 0.1; done`
	for _, how := range []struct{ name, once, each string }{
		{"the job is cancelled", "scancel --name=fabricform", ended},
		{"the job is cancelled and the guardian is killed", "scancel --name=fabricform", ended + `; pkill -KILL -f "guard watc[h]"`},
		{"slurmstepd is killed", "true", `pkill -KILL -f "^slurmstepd: [[]"`},
		{"slurmd is restarted", "true", "systemctl restart slurmd"},
	} {
		t.Run(how.name, func(t *testing.T) {
			c.amid(t)
			c.on(t, "node1", "", how.once)
			for _, host := range hosts {
				c.on(t, host, "", how.each)
			}
			for _, host := range hosts {
				said := strings.Fields(c.on(t, host, "", `until [ "$(cat /sys/class/net/eth1/mtu)" = 1500 ]; do sleep 0.1; done; cut -d' ' -f1 /proc/uptime
f=$(ls /var/lib/fabricform/transactions/[0-9]*.json | tail -1); until grep -q '"state": *"reverted"' $f; do sleep 0.1; done
sed -n 's/.*"deadline_ns": *\([0-9]*\).*/\1/p' $f; ip -o -4 addr show dev eth1 | wc -l`))
				if len(said) != 3 || said[2] != "0" {
					t.Fatalf("host %s did not revert: %q", host, said)
				}
				back, err := strconv.ParseFloat(said[0], 64)
				due, err2 := strconv.ParseFloat(said[1], 64)
				if after := back - due/1e9; err != nil || err2 != nil || after < 0 || after > 60 {
					t.Errorf("host %s: back after %f s of uptime, and its lease expired at %f", host, back, due/1e9)
				} else {
					t.Logf("figure: %s: %s was as before %.1f s after its lease had expired", how.name, host, after)
				}
			}
			c.on(t, "node1", "", `pkill -KILL -f "^fabricform [a]pply"; scancel --name=fabricform; pkill -x srun; cat /run/apply.log`)
			for _, host := range hosts {
				c.on(t, host, "", "systemctl restart slurmd") // it clears what a killed slurmstepd has left
			}
			if s := c.on(t, "node1", "", `sinfo -h -N -t drain -o %E | cut -d' ' -f1,2`); s != "fabricform apply\nfabricform apply\n" {
				t.Errorf("nodes are not drained, or not by fabricform: %q", s)
			}
			c.on(t, "node1", "", "scontrol update nodename=node1,node2 state=undrain")
			c.idle(t)
		})
	}
	t.Run("slurmd is restarted and the coordinator goes on", func(t *testing.T) {
		c.amid(t)
		for _, host := range hosts {
			c.on(t, host, "", "systemctl restart slurmd")
		}
		c.on(t, "node1", "", `pkill -CONT -f "^fabricform [a]pply"; until [ -e /run/code ]; do sleep 0.1; done; cat /run/apply.log; [ "$(cat /run/code)" = 0 ]`)
		c.idle(t)
		c.on(t, "node1", "", "fabricform plan -detailed-exitcode /root/f.hcl")
	})
	t.Run("RDMA is measured inside an allocation", func(t *testing.T) {
		c.on(t, "node1", slurmGuestRDMA, "cat > /root/f.hcl")
		c.on(t, "node1", "", "fabricform apply -auto-approve -no-verify /root/f.hcl")
		said := c.on(t, "node1", "", `for run in 1 2 3; do # a busy machine loses packets of Soft-RoCE
	fabricform verify -only verbs /root/f.hcl & p=$!
	while kill -0 $p 2>/dev/null; do squeue -h -n fabricform -o "nodes %D, shared: %h"; sleep 1; done | sort -u
	code=0; wait $p || code=$?
	[ $code = 3 ] || break
done
exit $code`)
		for _, want := range []string{"send_lat 2 B", "write_bw 64 KiB", "nodes 2, shared: NO"} { // two nodes that nobody shares
			if !strings.Contains(said, want) {
				t.Errorf("%q is missing", want)
			}
		}
		c.idle(t)
	})
}
