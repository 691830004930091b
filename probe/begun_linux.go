package probe

import (
	"crypto/rand"
	"sync"
)

// begun holds what one call begins until another call collects it. Its names cannot be guessed. The zero value is
// ready for use. Safe for concurrent use.
type begun[T any] struct {
	mu sync.Mutex
	by map[string]T
}

// put stores what and returns the name under which take returns it.
func (b *begun[T]) put(what T) (id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by == nil {
		b.by = map[string]T{}
	}
	id = rand.Text()
	b.by[id] = what
	return id
}

// take returns what was stored under that name, once.
func (b *begun[T]) take(id string) (what T, there bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	what, there = b.by[id]
	delete(b.by, id)
	return what, there
}
