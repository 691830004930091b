package host

import "testing"

func TestWhoseEtc(t *testing.T) {
	const (
		root  = "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
		labs  = "90 22 0:50 / /etc rw,relatime - overlay overlay rw,lowerdir=/etc,upperdir=/mnt/etc-upper,workdir=/mnt/etc-work,uuid=on\n"
		image = "91 22 0:51 / /etc rw,relatime - overlay overlay rw,lowerdir=/usr/etc,upperdir=/var/etc-upper,workdir=/var/etc-work\n"
	)
	for table, own := range map[string]bool{
		"": false, root: false, root + labs: true, root + image: false, root + image + labs: true, root + labs + image: false,
		root + "90 22 0:50 / /etc\n": false, " - \n/etc - overlay": false,
	} {
		if got := ownEtc(table); got != own {
			t.Errorf("%v, want %v:\n%s", got, own, table)
		}
	}
}
