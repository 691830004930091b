//go:build !linux

package main

// rankHost is of tests that need Linux.
const rankHost = "FABRICFORM_TEST_RANK_HOST"

func rankHostMain() int { return 1 }
