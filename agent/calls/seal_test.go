package calls

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"
)

// TestASealMatchesOnlyItsContent, whatever differs: a bit, the length, or the order of the pieces.
func TestASealMatchesOnlyItsContent(t *testing.T) {
	content := make([]byte, 2*sealedPiece+100)
	for i := range content {
		content[i] = byte(i >> 12) // each piece is another one
	}
	seal, size, err := MakeSeal(iotest.HalfReader(bytes.NewReader(content)))
	if err != nil || size != int64(len(content)) {
		t.Fatal(size, err)
	}
	flipped := slices.Clone(content)
	flipped[sealedPiece+7] ^= 1
	for name, other := range map[string][]byte{
		"nothing": nil, "a beginning": content[:2*sealedPiece], "more": append(slices.Clone(content), 0), "another bit": flipped,
		"another order": slices.Concat(content[sealedPiece:2*sealedPiece], content[:sealedPiece], content[2*sealedPiece:]),
	} {
		if is, err := seal.Matches(bytes.NewReader(other)); is || err != nil {
			t.Errorf("%s: %v, %v", name, is, err)
		}
	}
	if is, err := seal.Matches(iotest.OneByteReader(bytes.NewReader(content))); !is || err != nil {
		t.Errorf("the content itself: %v, %v", is, err)
	}
	broken := errors.New("broken disk")
	if is, err := seal.Matches(io.MultiReader(bytes.NewReader(content), iotest.ErrReader(broken))); is || !errors.Is(err, broken) {
		t.Errorf("%v, %v", is, err)
	}
	same, _, err := MakeSeal(bytes.NewReader(make([]byte, 2*sealedPiece)))
	if err != nil || bytes.Equal(same.Tags[:16], same.Tags[16:]) {
		t.Errorf("two pieces share a nonce, which gives away the key: %v", err)
	}
	again, _, err := MakeSeal(bytes.NewReader(content))
	if err != nil || bytes.Equal(again.Key, seal.Key) || bytes.Equal(again.Tags, seal.Tags) {
		t.Errorf("two seals share a key: %v", err)
	}
	for _, bad := range []Seal{{}, {Key: seal.Key}, {Key: seal.Key[:8], Tags: seal.Tags}, {Key: seal.Key, Tags: seal.Tags[:16]}, {Key: seal.Key, Tags: append(seal.Tags[:0:0], append(seal.Tags, 0)...)}} {
		if is, _ := bad.Matches(bytes.NewReader(content)); is {
			t.Errorf("%d bytes of key and %d of tags match", len(bad.Key), len(bad.Tags))
		}
	}
	if is, _ := (Seal{Key: seal.Key}).Matches(bytes.NewReader(nil)); is {
		t.Error("an empty seal matches an empty file")
	}
}
