//go:build !linux

package process

// InLab is false where there are no namespaces.
func InLab() bool { return false }
