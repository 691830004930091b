package qos

import (
	"context"
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/host"
)

const keptFile = "/etc/systemd/fabricform-lab-qos.json"

// booting is a host that has the file, and whose NIC may be another card.
type booting struct {
	*nic
	stat host.FileStat
	mac  string
}

func (b booting) Stat(_ context.Context, path string) (host.FileStat, error) {
	if _, has := b.files[path]; !has {
		return host.FileStat{}, fs.ErrNotExist
	}
	return b.stat, nil
}

func (b booting) Links(ctx context.Context) ([]host.Link, error) {
	links, err := b.nic.Links(ctx)
	links[0].PermMAC = b.mac
	return links, err
}

func keptText(t testing.TB, all ...Kept) string {
	t.Helper()
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return "# Made by fabricform for the fabric \"lab\".\n#\n" + string(text) + "\n"
}

func newBooting(t testing.TB, n *nic) booting {
	n.files[keptFile] = keptText(t, Kept{Netdev: "eth1", MAC: "02:00:00:00:00:02", RDMA: "mlx5_0", Class: lossless()})
	return booting{n, host.FileStat{Mode: 0o644}, "02:00:00:00:00:02"}
}

// TestBootSetsWhatApplySets, in two steps, because the RDMA device appears after its NIC.
func TestBootSetsWhatApplySets(t *testing.T) {
	h := newBooting(t, mlx5())
	made, err := Boot(t.Context(), h, keptFile, "eth1")
	if _, early := h.files[rdmaCMFile("mlx5_0", 1, "tos")]; err != nil || len(made) == 0 || early {
		t.Fatal(made, err)
	}
	if made, err := Boot(t.Context(), h, keptFile, "mlx5_0"); err != nil || len(made) != 1 || made[0].Attribute != attrRDMACM {
		t.Fatal(made, err)
	}
	if _, changes, err := plan(t, h.nic, lossless()); err != nil || len(changes) > 0 {
		t.Error(changes, err)
	}
	sets := h.sets
	for _, device := range []string{"eth1", "mlx5_0"} {
		if made, err := Boot(t.Context(), h, keptFile, device); err != nil || len(made) > 0 || h.sets != sets {
			t.Error(made, err)
		}
	}
}

func TestBootRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		make   func(b *booting)
		device string
		says   string
	}{
		"no file":                {func(b *booting) { delete(b.files, keptFile) }, "eth1", "file does not exist"},
		"a link":                 {func(b *booting) { b.stat.Mode = fs.ModeSymlink | 0o777 }, "eth1", "it is not a regular file"},
		"a file of a user":       {func(b *booting) { b.stat.UID = 1000 }, "eth1", "others than root may have written it"},
		"a file that others may": {func(b *booting) { b.stat.Mode = 0o664 }, "eth1", "others than root may have written it"},
		"another card":           {func(b *booting) { b.mac = "02:00:00:00:00:09" }, "eth1", "eth1 is another card"},
		"another card with this address": {func(b *booting) {
			b.files[keptFile] = keptText(t, Kept{Netdev: "eth1", MAC: b.mac, PCI: "0000:ff:00.0", Class: lossless()})
		}, "eth1", "eth1 is another card"},
		"no NIC": {func(b *booting) { b.files[keptFile] = keptText(t, Kept{Netdev: "eth7", Class: lossless()}) }, "eth7",
			"netdev \"eth7\" does not exist"},
		"another device":   {func(*booting) {}, "eth2", "has no class for the device \"eth2\""},
		"no device":        {func(*booting) {}, "", "has no class for the device \"\""},
		"half a file":      {func(b *booting) { b.files[keptFile] = b.files[keptFile][:150] }, "eth1", "unexpected EOF"},
		"more":             {func(b *booting) { b.files[keptFile] += "[]" }, "eth1", "there is text after the list"},
		"of a newer build": {func(b *booting) { b.files[keptFile] = `[{"netdev":"eth1","new":1}]` }, "eth1", "unknown field \"new\""},
		"no netdev":        {func(b *booting) { b.files[keptFile] = `[{}]` }, "eth1", "a class has no netdev"},
		"a large file":     {func(b *booting) { b.files[keptFile] = strings.Repeat(" ", maxKept+1) }, "eth1", "larger than 1 MiB"},
		"no such class": {func(b *booting) {
			b.files[keptFile] = keptText(t, Kept{Netdev: "eth1", MAC: b.mac, Class: Spec{Priority: of(9)}})
		}, "eth1", "does not exist"},
		"only comments": {func(b *booting) { b.files[keptFile] = "#\n#" }, "eth1", "EOF"},
	} {
		b := newBooting(t, mlx5())
		c.make(&b)
		if _, err := Boot(t.Context(), b, keptFile, c.device); err == nil || !strings.Contains(err.Error(), c.says) || b.sets > 0 {
			t.Errorf("%s: %v, %d changes", name, err, b.sets)
		}
	}
}

// FuzzBoot: no text of the file makes the program panic or hang.
func FuzzBoot(f *testing.F) {
	f.Add(keptText(f, Kept{Netdev: "eth1", RDMA: "mlx5_0", Class: lossless()}))
	f.Add(keptText(f, Kept{Netdev: "eth1", Class: Spec{ETS: map[int]int{0: -5, 7: 1 << 40}, Buffer: map[int]int{3: -1}, Priority: of(7), DSCP: of(63), Trust: "x"}}))
	f.Add(keptText(f, Kept{Netdev: "eth1", Class: Spec{ETS: map[int]int{}, PFC: of(true), CNPDSCP: of(-1), RDMACM: of(true), TOS: 1 << 20}}))
	f.Add("#\n[")
	f.Fuzz(func(t *testing.T, text string) {
		b := booting{mlx5().switches(), host.FileStat{Mode: 0o644}, ""}
		b.files[keptFile] = text
		for _, device := range []string{"eth1", "mlx5_0"} {
			_, _ = Boot(t.Context(), b, keptFile, device)
		}
	})
}
