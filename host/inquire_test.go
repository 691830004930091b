package host

import "testing"

func TestOnlyProgramsThatLookAreInquired(t *testing.T) {
	for _, argv := range [][]string{{"apt-get", "install", "--simulate", "x"}, {"apt-get"}, {"dnf", "install", "-y"}, {"rpm", "-e", "x"}, {"sh", "-c", "x"},
		{"zypper", "--non-interactive", "install", "x"}, {"ofed_info"}, {"dkms", "remove"}} {
		if Inquiry(argv[0], argv[1:]) == nil {
			t.Errorf("%v may be run by who only looks", argv)
		}
	}
	if err := Inquiry("apt-get", []string{"--simulate", "install", "x"}); err != nil {
		t.Error(err)
	}
}
