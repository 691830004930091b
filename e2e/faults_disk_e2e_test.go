//go:build linux

package e2e

import (
	"fmt"
	"os"
	"time"
)

// smallState lays memory of so many KiB over a host's state folder. The returned function takes it
// away again.
func (l *faultLab) smallState(host string, kib int) (remove func()) {
	l.t.Helper()
	l.on(host, fmt.Sprintf("mkdir -p /var/lib/fabricform && mount -t tmpfs -o size=%dk,mode=0700 tmpfs /var/lib/fabricform", kib))
	return func() { l.on(host, "umount /var/lib/fabricform") }
}

// unchanged fails where a host is not as it was.
func (l *faultLab) unchanged() {
	l.t.Helper()
	for host, old := range l.old {
		if now := wholeState(l.t, l.state, l.fabric, host); now != old {
			l.t.Errorf("host %s is not as it was:\n%s\n%s", host, old, now)
		}
	}
}

// diskRows: disks that are full, or take no writes.
func diskRows() (rows []faultRow) {
	add := func(name string, short bool, do func(l *faultLab)) { rows = append(rows, faultRow{name, short, do}) }
	for _, kib := range []int{4, 64} {
		add(fmt.Sprintf("a disk with %d KiB left", kib), kib == 4, func(l *faultLab) {
			defer l.smallState("a", kib)()
			try(l.t, l.state, "apply", "-lab", "-auto-approve", "-no-verify", l.fabric).want(l.t, 1, "nothing was changed on any host", "no space left on device")
			l.unchanged()
		})
	}
	add("a disk that is full at one write after the other", true, func(l *faultLab) {
		seen := map[int]int{}
		for kib := 256; seen[0] == 0; kib += 4 { // a page more each time
			if kib > 512 {
				l.t.Fatal("no disk is large enough")
			}
			remove := l.smallState("a", kib)
			a := try(l.t, l.state, "apply", "-lab", "-auto-approve", "-no-verify", "-lease", longLease.String(), l.fabric)
			seen[a.code]++
			switch a.code {
			case 0:
				a.want(l.t, 0, "a, b  committed")
				try(l.t, l.state, "plan", "-lab", "-detailed-exitcode", l.fabric).want(l.t, 0)
				try(l.t, l.state, "rollback", "-lab", "-auto-approve", l.fabric).want(l.t, 0, "a, b  reverted")
			case 1:
				a.want(l.t, 1, "nothing was changed on any host", "no space left on device")
			default:
				a.want(l.t, 6, "reverted", "every host that it changed was rolled back", "no space left on device")
			}
			l.unchanged()
			remove()
		}
		l.t.Logf("disks on which nothing could be begun: %d, that went back in the middle: %d, that were enough: %d", seen[1], seen[6], seen[0])
		if seen[1] == 0 || seen[6] == 0 {
			l.t.Error("no disk was full at the beginning, or none in the middle")
		}
	})
	add("the disk takes no writes any more", true, func(l *faultLab) {
		defer l.smallState("a", 1024)()
		l.apply(2, func(*os.Process) {
			l.on("a", "mount -o remount,ro /var/lib/fabricform && ! touch /var/lib/fabricform/x")
		}).want(l.t, 7, "read-only file system")
		time.Sleep(shortLease) // whoever reverts, has done so, and could not write it down
		l.unchanged()
		l.on("a", "mount -o remount,rw /var/lib/fabricform")
		l.back(time.Now(), 10*time.Second)
	})
	add("etc is read-only", true, func(l *faultLab) {
		l.on("a", "mount --bind /etc /etc && mount -o remount,bind,ro /etc && ! touch /etc/x")
		try(l.t, l.state, "apply", "-lab", "-auto-approve", "-no-verify", l.fabric).want(l.t, 6, "write /etc/nccl.conf", "read-only file system", "a, b  reverted")
		l.on("a", "umount /etc")
		l.back(time.Now(), time.Second)
	})
	add("a step of the way back fails", true, func(l *faultLab) {
		const key = "/proc/sys/net/ipv4/tcp_mtu_probing"
		l.manual("10m")
		l.on("a", "mount --bind "+key+" "+key+" && mount -o remount,bind,ro "+key+" && ! echo 1 > "+key)
		try(l.t, l.state, "rollback", "-lab", "-auto-approve", l.fabric).want(l.t, 7, "a  revert failed", "net.ipv4.tcp_mtu_probing is 1, was 0", "b  reverted")
		try(l.t, l.state, "pending", "-lab", l.fabric).want(l.t, 0, "an operator must intervene", "net.ipv4.tcp_mtu_probing is 1, was 0")
		try(l.t, l.state, "apply", "-lab", "-auto-approve", "-no-verify", l.fabric).want(l.t, 8, "nothing was changed", "an operator must intervene")
		l.on("a", "umount "+key+" && echo 0 > "+key)
		try(l.t, l.state, "unlock", "-lab", l.fabric).want(l.t, 0, "ended. It could not restore")
		l.unchanged()
		try(l.t, l.state, "pending", "-lab", l.fabric).want(l.t, 0, "No open transactions")
	})
	return rows
}
