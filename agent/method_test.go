package agent

import (
	"context"
	"strings"
	"testing"
)

var length = Method[string, int]("length")

func lengthOf(_ context.Context, s string) (int, error) { return len(s), nil }

func TestAMethodIsTypedOnBothSides(t *testing.T) {
	table, err := NewTable(length.Serve(lengthOf))
	if err != nil {
		t.Fatal(err)
	}
	conn, _ := wire(t, "", table)
	c, err := Connect(t.Context(), conn, "b1", deadAfter)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, err := length.Call(t.Context(), c, "h", "four"); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	// A request that another build might send is refused by the name of its method.
	_, err = Method[[]int, int](length).Call(t.Context(), c, "h", []int{1})
	if err == nil || !strings.Contains(err.Error(), "decode request for length") {
		t.Errorf("a list for a string: %v", err)
	}
}

func TestTwoMethodsOfOneNameAreRefused(t *testing.T) {
	another := Method[int, string]("length")
	_, err := NewTable(length.Serve(lengthOf), another.Serve(func(context.Context, int) (string, error) { return "", nil }))
	if err == nil || !strings.Contains(err.Error(), `"length"`) {
		t.Errorf("got %v", err)
	}
}
