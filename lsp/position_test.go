package lsp

import "testing"

// TestPositions: columns count UTF-16 units, lines end as the protocol says.
func TestPositions(t *testing.T) {
	src := "# 两台服务器\nmtu = 1 # 😀 x\r\nb\rc"
	tx := newText([]byte(src))
	for at, want := range map[int]position{
		0: {0, 0}, 2: {0, 2}, 5: {0, 3}, 3: {0, 2}, 17: {0, 7}, 18: {1, 0}, 24: {1, 6},
		28: {1, 10}, 30: {1, 10}, 32: {1, 12}, 34: {1, 14}, 36: {2, 0}, 38: {3, 0}, 39: {3, 1}, 99: {3, 1}, -1: {0, 0},
	} {
		if got := tx.position(at); got != want {
			t.Errorf("byte %d of %q: %v, want %v", at, src, got, want)
		}
	}
	for p, want := range map[position]int{
		{0, 3}: 5, {0, 7}: 17, {0, 99}: 17, {1, 0}: 18, {1, 10}: 28, {1, 11}: 28, {1, 12}: 32, {1, 99}: 34, {2, 1}: 37, {3, 9}: 39, {9, 0}: 39, {-1, 5}: 0, {1, -5}: 18,
	} {
		if got := tx.offset(p); got != want {
			t.Errorf("%v of %q: byte %d, want %d", p, src, got, want)
		}
	}
}
