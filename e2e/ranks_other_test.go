//go:build !linux

package e2e

// rankHost is of tests that need Linux.
const rankHost = "FABRICFORM_TEST_RANK_HOST"

func rankHostMain() int { return 1 }
