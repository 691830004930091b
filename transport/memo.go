package transport

import "sync"

// readOnce are the files that a Dialer has read: many hosts share them. What was read stays as it was, also if that was an error.
type readOnce struct {
	known memo[*knownHosts] // by the names of all files of a host
	keys  memo[identity]    // by path
}

// memo keeps results of a function by a key. Safe for concurrent use.
type memo[T any] struct {
	mu sync.Mutex
	by map[string]func() (T, error)
}

// once returns the result for a key. The first call for it makes the result, and others wait for that.
func (m *memo[T]) once(key string, make func() (T, error)) (T, error) {
	m.mu.Lock()
	if m.by == nil {
		m.by = map[string]func() (T, error){}
	}
	if m.by[key] == nil {
		m.by[key] = sync.OnceValues(make)
	}
	made := m.by[key]
	m.mu.Unlock()
	return made()
}
