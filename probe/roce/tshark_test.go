package roce

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tsharkFields are Wireshark's names, in the order of fieldsOf.
var tsharkFields = []string{
	"infiniband.bth.opcode", "infiniband.bth.se", "infiniband.bth.m", "infiniband.bth.padcnt", "infiniband.bth.tver", "infiniband.bth.p_key",
	"infiniband.bth.destqp", "infiniband.bth.a", "infiniband.bth.psn", "infiniband.deth.q_key", "infiniband.deth.srcqp",
	"infiniband.reth.va", "infiniband.reth.r_key", "infiniband.reth.dmalen", "infiniband.aeth.syndrome", "infiniband.aeth.msn",
	"infiniband.atomiceth.swapdt", "infiniband.atomiceth.cmpdt", "infiniband.atomicacketh.origremdt", "infiniband.invariant.crc",
}

// fieldsOf is a packet in Wireshark's fields; those of missing headers are -1.
func fieldsOf(p *Packet) []int64 {
	b := func(v bool) int64 {
		if v {
			return 1
		}
		return 0
	}
	out := []int64{int64(p.Opcode), b(p.Solicited), b(p.Migrated), int64(p.Pad), int64(p.Version), int64(p.PKey), int64(p.TargetQP), b(p.AckRequest), int64(p.PSN),
		-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, int64(p.ICRC)}
	if p.DETH != nil {
		out[9], out[10] = int64(p.DETH.QKey), int64(p.DETH.SourceQP)
	}
	if p.RETH != nil {
		out[11], out[12], out[13] = int64(p.RETH.VirtualAddress), int64(p.RETH.RKey), int64(p.RETH.Length)
	}
	if p.AETH != nil {
		out[14], out[15] = int64(p.AETH.Syndrome), int64(p.AETH.MSN)
	}
	if p.Atomic != nil {
		out[11], out[12] = int64(p.Atomic.VirtualAddress), int64(p.Atomic.RKey)
		out[16], out[17] = int64(p.Atomic.SwapOrAdd), int64(p.Atomic.Compare)
	}
	if p.AtomicAck != nil {
		out[18] = int64(*p.AtomicAck)
	}
	return out
}

func TestWiresharkReadsTheSame(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("needs tshark (apt-get install --no-install-recommends tshark)")
	}
	frames := tsharkFrames(t)
	file := filepath.Join(t.TempDir(), "roce.pcap")
	var capture bytes.Buffer
	w, err := NewWriter(&capture, 9216)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range frames {
		if err := w.Write(Record{Time: time.Unix(1764000000+int64(i), 5), Length: len(b), Frame: b}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, capture.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-n", "-r", file, "-T", "fields", "-E", "occurrence=f", "-e", "frame.time_epoch"}
	for _, f := range tsharkFields {
		args = append(args, "-e", f)
	}
	cmd := exec.Command(tshark, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // a person's own settings change what is decoded
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(frames) {
		t.Fatalf("%d frames, %d lines", len(frames), len(lines))
	}
	for i, line := range lines {
		p, err := Decode(frames[i])
		if err != nil {
			t.Fatal(err)
		}
		at, rest, _ := strings.Cut(line, "\t")
		if !strings.HasPrefix(at, fmt.Sprintf("%d.000000005", 1764000000+i)) {
			t.Errorf("frame %d: time %s", i, at)
		}
		compare(t, p, strings.Split(rest, "\t"))
	}
}

func compare(t *testing.T, p *Packet, theirs []string) {
	t.Helper()
	fields := fieldsOf(p)
	if p.Opcode.service() == serviceXRC {
		fields = fields[:9] // it reads nothing behind an XRC packet's BTH
	}
	for i, ours := range fields {
		// Where it takes the payload for a protocol's, it shows no ICRC.
		if theirs[i] == "" && tsharkFields[i] == "infiniband.invariant.crc" {
			continue
		}
		their := int64(-1)
		switch text := theirs[i]; text {
		case "":
		case "True", "False":
			their = map[string]int64{"True": 1, "False": 0}[text]
		default:
			n, err := strconv.ParseUint(text, 0, 64)
			if err != nil {
				t.Fatal(err)
			}
			their = int64(n)
		}
		if ours != their {
			t.Errorf("%s: %s: we say %#x, Wireshark %#x", p.Opcode, tsharkFields[i], ours, their)
		}
	}
}

// tsharkFrames are one frame of each opcode that Wireshark knows too, and all foreign ones.
func tsharkFrames(t *testing.T) [][]byte {
	var out [][]byte
	for i, o := range knownOpcodes() {
		// FLUSH and ATOMIC_WRITE came after Wireshark 4.0. In reliable datagrams, which no device
		// sends, Wireshark skips more than the 4 bytes of an RDETH (9.3.2 of the specification).
		if o.operation() == 0x1c || o.operation() == 0x1d || o.service() == serviceRD {
			continue
		}
		f := frame{source: hostA, target: hostB, tos: 0x6a, extension: extensionOf(o),
			bth: BTH{Opcode: o, Solicited: i%2 == 0, Migrated: i%3 == 0, PKey: 0xffff, TargetQP: 0x800010 + uint32(i), AckRequest: i%5 == 0, PSN: 0xfffff0 + uint32(i)&0xf}}
		// It finds no ICRC behind a payload that the opcode cannot have.
		if h := o.headers(); h&(hasAtomicETH|hasAtomicAckETH) == 0 && o.operation() != opReadRequest && o.operation() != opAcknowledge {
			f.payload = make([]byte, 16)
		}
		if i%2 == 1 {
			f.source, f.target = "fd00::1", "fd00::2"
		}
		if i%4 == 3 {
			f.vlans = []uint16{100}
		}
		out = append(out, f.build())
	}
	for _, b := range foreign(t) {
		out = append(out, b)
	}
	return out
}
