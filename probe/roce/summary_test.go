package roce

import (
	"encoding/json"
	"fmt"
	"testing"
)

const (
	hostA = "10.0.0.1"
	hostB = "10.0.0.2"
)

func add(t *testing.T, s *Summary, f frame) {
	t.Helper()
	p, err := Decode(f.build())
	if err != nil {
		t.Fatal(err)
	}
	s.Add(p)
}

func packet(from, to string, o Opcode, qp, psn uint32) frame {
	return frame{source: from, target: to, bth: BTH{Opcode: o, TargetQP: qp, PSN: psn}, extension: extensionOf(o), payload: make([]byte, 4)}
}

func TestSummaryOfARepeatedWrite(t *testing.T) {
	var s Summary
	// Two connections side by side; the first one loses its second packet, over the wrap of the PSN.
	for _, psn := range []uint32{0xfffffe, 0xffffff, 0x000000} {
		add(t, &s, packet(hostA, hostB, 0x07, 0x11, psn))
		add(t, &s, packet(hostA, hostB, 0x07, 0x12, psn-5000000))
	}
	nak := packet(hostB, hostA, 0x11, 0x21, 0xffffff)
	nak.extension = words(0x60000001)
	add(t, &s, nak)
	for _, psn := range []uint32{0xffffff, 0x000000, 0x000001} {
		add(t, &s, packet(hostA, hostB, 0x07, 0x11, psn))
	}
	add(t, &s, packet(hostB, hostA, 0x11, 0x21, 1))
	add(t, &s, packet(hostB, hostA, 0x11, 0x21, 1)) // an answer twice is no retransmission
	marked := packet(hostA, hostB, 0x04, 0x12, 20000000&0xffffff)
	marked.tos = 3
	add(t, &s, marked)
	add(t, &s, frame{source: hostB, target: hostA, bth: BTH{Opcode: CNP, TargetQP: 0x22, BECN: true}, payload: make([]byte, 16)})
	broken := packet(hostA, hostB, 0x07, 0x11, 0x000001)
	broken.badICRC = true
	add(t, &s, broken)
	want := `[
{"source":"10.0.0.1","target":"10.0.0.2","source_qp":33,"target_qp":17,"packets":7,"payload":28,"opcodes":[{"opcode":"RC RDMA_WRITE_MIDDLE","packets":7}],"retransmitted":2,"bad_icrc":1}
{"source":"10.0.0.1","target":"10.0.0.2","target_qp":18,"packets":4,"payload":16,"opcodes":[{"opcode":"RC SEND_ONLY","packets":1},{"opcode":"RC RDMA_WRITE_MIDDLE","packets":3}],"marked":1}
{"source":"10.0.0.2","target":"10.0.0.1","source_qp":17,"target_qp":33,"packets":3,"payload":12,"opcodes":[{"opcode":"RC ACKNOWLEDGE","packets":3}],"naks":1}
{"source":"10.0.0.2","target":"10.0.0.1","target_qp":34,"packets":1,"payload":16,"opcodes":[{"opcode":"CNP","packets":1}],"cnps":1}
]`
	got := "[\n"
	for _, f := range s.Flows() {
		b, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		got += string(b) + "\n"
	}
	if got += "]"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSummaryOfReads(t *testing.T) {
	var s Summary
	add(t, &s, packet(hostA, hostB, 0x0c, 0x11, 100)) // answered by 100 to 102
	for _, psn := range []uint32{100, 101, 102} {
		add(t, &s, packet(hostB, hostA, 0x0e, 0x21, psn))
	}
	add(t, &s, packet(hostA, hostB, 0x0c, 0x11, 101)) // asks for the rest again
	add(t, &s, packet(hostB, hostA, 0x0d, 0x21, 101))
	rnr := packet(hostB, hostA, 0x11, 0x21, 103)
	rnr.extension = words(0x2c000001)
	add(t, &s, rnr)
	f := s.Flows()
	if len(f) != 2 || f[0].Retransmitted != 1 || f[1].Retransmitted != 1 || f[0].SourceQP != 0x21 || f[1].SourceQP != 0x11 || f[1].RNRs != 1 {
		t.Errorf("%+v", f)
	}
}

func TestSummaryLeavesAnUnclearSenderOpen(t *testing.T) {
	var s Summary
	add(t, &s, packet(hostA, hostB, 0x04, 0x11, 100))
	add(t, &s, packet(hostA, hostB, 0x04, 0x12, 100))
	add(t, &s, packet(hostB, hostA, 0x11, 0x21, 100))
	for _, f := range s.Flows() {
		if f.SourceQP != 0 {
			t.Errorf("guessed: %+v", f)
		}
	}
	add(t, &s, packet(hostA, hostB, 0x64, 0x13, 7))
	if f := s.Flows(); f[2].SourceQP != 0x21 {
		t.Errorf("a datagram tells its sender: %+v", f[2])
	}
}

func TestSummaryIsBounded(t *testing.T) {
	var s Summary
	for qp := range uint32(maxFlows + 10) {
		add(t, &s, packet(hostA, hostB, 0x04, qp, 0))
	}
	if len(s.Flows()) != maxFlows || s.Others != 10 {
		t.Error(len(s.Flows()), s.Others)
	}
}

func TestRowSaysWhatStandsOut(t *testing.T) {
	for _, o := range knownOpcodes() {
		f := packet(hostA, hostB, o, 1, 2)
		f.badICRC, f.tos = true, 3
		p, err := Decode(f.build())
		if err != nil {
			t.Fatal(err)
		}
		if r := p.Row(); r.Opcode != fmt.Sprint(o) || len(r.Detail) < len("congestion marked; ICRC is wrong") {
			t.Errorf("%+v", r)
		}
	}
}
