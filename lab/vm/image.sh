#!/usr/bin/env bash
# Makes what guests boot from, out of Debian packages, in the current folder: vmlinux, initrd and
# disk.img. Works as root, and as a user who may make user namespaces.
#   image.sh SUITE SIZE PUBLIC-KEY-FILE OWNER PACKAGE…
# The folder dcbnic holds the source of the kernel module that gives the guests' NICs QoS. OWNER is the network manager: networkd, networkmanager, netplan-networkd, netplan-networkmanager, ifupdown.
set -euo pipefail
suite=$1 size=$2 key=$(cat "$3")
export LC_ALL=C KEY=$key OWNER=$4
shift 4

# In a user namespace files keep the owners that they will have on the disk.
as_root=()
[ "$(id -u)" = 0 ] || as_root=(unshare --user --map-root-user --map-auto)

# What the module is built with. The guests do not need it.
build_packages=(linux-headers-amd64 make)
export BUILD_PACKAGES=${build_packages[*]}

cat > configure.sh <<'CONFIGURE'
set -eu
cp -r dcbnic "$1/root"
cd "$1"
version=$(ls lib/modules)
chroot . make -s -C "/lib/modules/$version/build" M=/root/dcbnic modules
chroot . strip --strip-debug /root/dcbnic/dcbnic.ko
install -D -m 644 root/dcbnic/dcbnic.ko "lib/modules/$version/updates/dcbnic.ko"
rm -r root/dcbnic
chroot . depmod "$version"
# apt keeps the headers of an installed kernel, unless they are named.
chroot . apt-get -qq -o Dpkg::Use-Pty=false purge --auto-remove $BUILD_PACKAGES "linux-headers-$version" >/dev/null
chroot . modinfo -k "$version" -n dcbnic >/dev/null
echo dcbnic > etc/modules-load.d/dcbnic.conf
echo 'options dcbnic except=52:54:00:00:00:01' > etc/modprobe.d/dcbnic.conf # the management NIC stays as it is
install -d -m 700 root/.ssh
printf '%s\n' "$KEY" > root/.ssh/authorized_keys
# The management NIC is known by the address that the lab gives it; fabric NICs come later.
cat > etc/systemd/network/10-management.link <<'FILE'
[Match]
MACAddress=52:54:00:00:00:01
[Link]
Name=mgmt0
FILE
case $OWNER in
networkd)
  cat > etc/systemd/network/10-management.network <<'FILE'
[Match]
Name=mgmt0
[Network]
Address=10.0.2.15/24
LinkLocalAddressing=no
IPv6AcceptRA=no
FILE
  service=systemd-networkd ;;
networkmanager)
  install -m 600 /dev/stdin etc/NetworkManager/system-connections/management.nmconnection <<'FILE'
[connection]
id=management
type=ethernet
interface-name=mgmt0
[ipv4]
method=manual
address1=10.0.2.15/24
[ipv6]
method=disabled
FILE
  service=NetworkManager ;;
netplan-*)
  case $OWNER in *networkd) service=systemd-networkd renderer=networkd ;; *) service=NetworkManager renderer=NetworkManager ;; esac
  install -d etc/netplan
  install -m 600 /dev/stdin etc/netplan/10-management.yaml <<FILE
network:
  version: 2
  renderer: $renderer
  ethernets:
    mgmt0: {addresses: [10.0.2.15/24], link-local: [], accept-ra: false}
FILE
  ;;
ifupdown)
  cat > etc/network/interfaces <<'FILE'
source /etc/network/interfaces.d/*
auto lo mgmt0
iface lo inet loopback
iface mgmt0 inet static
  address 10.0.2.15/24
FILE
  service=networking ;;
esac
# NICs are named by udev, but not where a name is held by a card whose turn has not come (eth0 is to
# be eth1, and eth1 eth2): this goes on until all have theirs. /etc/lab-nics holds MAC and name a line.
cat > usr/local/sbin/lab-names <<'FILE'
#!/bin/sh
[ -e /etc/lab-nics ] || exit 0
has() { # which card has a MAC
  for d in /sys/class/net/*/device; do
    d=${d%/device}
    [ "$(cat "$d/address" 2>/dev/null)" = "$1" ] && { echo "${d##*/}"; return; }
  done
}
i=0
while :; do
  missing=
  while read -r mac name; do
    now=$(has "$mac")
    [ "$now" = "$name" ] && continue
    missing="$missing $name"
    [ -n "$now" ] || continue
    [ -e "/sys/class/net/$name" ] && ip link set dev "$name" name "lab-$i-${name#eth}"
    ip link set dev "$now" name "$name"
  done < /etc/lab-nics
  [ -z "$missing" ] && exit 0
  i=$((i+1))
  [ $i -lt 300 ] || { echo "these NICs do not appear:$missing" >&2; exit 1; }
  sleep 0.1
done
FILE
chmod 755 usr/local/sbin/lab-names
cat > etc/systemd/system/lab-names.service <<'FILE'
[Unit]
Description=Names of the lab's NICs
DefaultDependencies=no
After=systemd-udev-trigger.service systemd-remount-fs.service
Before=network-pre.target systemd-networkd.service NetworkManager.service networking.service
Wants=network-pre.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/lab-names
[Install]
WantedBy=multi-user.target
FILE
echo '/dev/vda / ext4 rw,noatime 0 1' > etc/fstab
echo guest > etc/hostname
echo 'kernel.panic = 5' > etc/sysctl.d/90-lab.conf
for other in systemd-networkd NetworkManager networking; do
  chroot . systemctl disable "$other" >/dev/null 2>&1 || : # it may not be installed
done
chroot . systemctl --quiet enable "$service" ssh lab-names >/dev/null
chroot . systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
  man-db.timer getty@tty1.service serial-getty@ttyS0.service systemd-networkd-wait-online.service >/dev/null
rm -f boot/initrd.img*
CONFIGURE

packages=$(IFS=,; echo "$*,${build_packages[*]}")
mmdebstrap --quiet --variant=minbase --format=tar --include="$packages" \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --aptopt='APT::Install-Recommends "false"' --customize-hook='sh ./configure.sh "$1"' \
  "$suite" root.tar ${FABRICFORM_DEBIAN_MIRROR:+"$FABRICFORM_DEBIAN_MIRROR"}

cat > disk.sh <<'DISK'
set -eu
mkdir root
tar -C root --exclude='./dev/*' -xf root.tar # a user may make no devices, and the kernel makes its own
truncate -s "$1" disk.img
mke2fs -q -t ext4 -L lab -d root disk.img
cp root/boot/vmlinuz-* vmlinuz
cp -r root/lib/modules modules-tree
cp root/etc/ssh/ssh_host_ed25519_key.pub host_key.pub
rm -rf root
DISK
"${as_root[@]}" sh disk.sh "$size"
rm root.tar

# The kernel without its decompressor, which is slow under emulation: the payload's place stands in
# the header (Documentation/arch/x86/boot.rst, payload_offset and payload_length).
number() { od -An -tu"$2" -j"$1" -N"$2" vmlinuz | tr -d ' '; }
start=$(( ($(number 497 1) + 1) * 512 + $(number 584 4) ))
length=$(( $(number 588 4) - 4 ))
dd if=vmlinuz of=payload bs=64K iflag=skip_bytes,count_bytes skip=$start count=$length status=none
case $(od -An -tx1 -N4 payload | tr -d ' ') in
  28b52ffd) zstd -qdc payload > vmlinux ;;
  fd377a58) xz -qdc --single-stream payload > vmlinux ;;
  *) cp vmlinuz vmlinux ;;
esac
rm payload vmlinuz

# An initrd that mounts the disk, and no more.
version=$(ls modules-tree)
mkdir -p tree/bin tree/mod tree/dev tree/proc tree/root fake/lib
mv modules-tree fake/lib/modules
cp "$(command -v busybox)" tree/bin/busybox
: > tree/mod/list
for module in virtio_pci virtio_blk ext4; do
  modprobe --dirname fake --set-version "$version" --show-depends "$module" | awk '$1 == "insmod" {print $2}' | while read -r file; do
    name=$(basename "$file"); name=${name%.xz}; name=${name%.zst}
    grep -qx "$name" tree/mod/list && continue
    case $file in *.xz) xz -dc "$file" ;; *.zst) zstd -qdc "$file" ;; *) cat "$file" ;; esac > "tree/mod/$name"
    echo "$name" >> tree/mod/list
  done
done
cat > tree/init <<'INIT'
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
while read -r module; do /bin/busybox insmod "/mod/$module"; done < /mod/list
until [ -b /dev/vda ]; do /bin/busybox sleep 0.1; done
/bin/busybox mount -t ext4 -o rw,noatime /dev/vda /root
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /sbin/init
INIT
chmod +x tree/init
(cd tree && find . | cpio -o -H newc --quiet) > initrd
rm -rf tree fake configure.sh disk.sh
