//go:build !linux

package process

// InLab returns false: other systems have no namespaces.
func InLab() bool { return false }
