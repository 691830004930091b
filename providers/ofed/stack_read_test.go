package ofed

import "testing"

// TestARebootIsDueForALaterKernelOfTheSameFlavour: others that are installed beside it are not what a
// restart brings.
func TestARebootIsDueForALaterKernelOfTheSameFlavour(t *testing.T) {
	for running, c := range map[string]struct {
		others []string
		later  string
	}{
		"5.15.0-91-generic":            {[]string{"5.15.0-101-lowlatency", "6.8.0-1010-aws"}, ""},
		"5.15.0-94-generic":            {[]string{"5.15.0-107-generic", "5.15.0-101-generic", "5.15.0-113-lowlatency", "5.15.0-91-generic"}, "5.15.0-107-generic"},
		"6.1.0-18-amd64":               {[]string{"6.1.0-22-rt-amd64", "6.1.0-17-amd64"}, ""},
		"6.12.48+deb13-amd64":          {[]string{"6.12.57+deb13-amd64", "6.16.3+deb13-cloud-amd64"}, "6.12.57+deb13-amd64"},
		"6.1.0-40-amd64":               {[]string{"6.12.57+deb13-amd64", "6.12.57+deb12-rt-amd64"}, "6.12.57+deb13-amd64"},
		"6.1.0-39-cloud-amd64":         {[]string{"6.12.43+deb12-cloud-amd64", "6.16.3+deb13-amd64"}, "6.12.43+deb12-cloud-amd64"},
		"6.6.13+bpo-amd64":             {[]string{"6.12.9+bpo-amd64", "6.12.57+deb13-cloud-amd64"}, "6.12.9+bpo-amd64"},
		"6.1.0-0.deb11.13-amd64":       {[]string{"6.1.0-0.deb11.21-amd64", "6.1.0-18-amd64"}, "6.1.0-18-amd64"},
		"5.14.0-427.el9_4.x86_64":      {[]string{"5.14.0-427.el9_4.x86_64+debug", "5.14.0-427.13.1.el9_4.x86_64+rt", "5.14.0-570.el9_6.x86_64+64k"}, ""},
		"5.14.0-427.13.1.el9_4.x86_64": {[]string{"5.14.0-503.el9_5.x86_64"}, "5.14.0-503.el9_5.x86_64"},
		"5.15.0-206.el9uek.x86_64":     {[]string{"5.14.0-427.el9.x86_64", "6.12.0-1.el9.x86_64"}, ""},
		"5.14.21-150500.55.19-default": {[]string{"5.14.21-150500.55.52-default", "6.4.0-150600.21-azure"}, "5.14.21-150500.55.52-default"},
	} {
		texts := map[string]string{"/lib/modules/" + running + "/modules.dep": "", "/boot/vmlinuz-" + running: ""}
		for _, k := range c.others {
			texts["/lib/modules/"+k+"/modules.dep"], texts["/boot/vmlinuz-"+k] = "", ""
		}
		want := ""
		if c.later != "" {
			want = "kernel " + c.later + " is installed, but " + running + " is running"
		}
		if got := rebootDue(t.Context(), files(t, texts), running); got != want {
			t.Errorf("%s: %q, want %q", running, got, want)
		}
	}
}
