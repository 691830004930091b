// SPDX-License-Identifier: GPL-2.0-only
/*
 * dcbnic - gives virtio NICs the QoS controls of an mlx5 NIC, to rehearse lossless RoCE
 *
 * Copyright (C) 2026 The fabricform authors
 *
 * A virtio NIC has neither DCB nor pause nor counters per priority. This module adds them to each
 * virtio NIC of the machine, except to those whose MAC address is in the parameter "except":
 *
 *  - dcbnl: IEEE ETS, PFC, maxrate, APP (DSCP), APPTRUST, buffers and the DCBX mode;
 *  - pause parameters of ethtool;
 *  - statistics of ethtool with the names that mlx5 uses. They count the packets that the NIC sent and
 *    received, on the priority that the settings give them, and the pause and PFC frames that it
 *    received.
 *
 * Settings change what is counted, and nothing else: no queue is scheduled, and no traffic is paused.
 * Where a setting has an effect beside its own, or is refused, the model is mlx5
 * (drivers/net/ethernet/mellanox/mlx5/core: en_dcbnl.c, en_stats.c, en_ethtool.c and port.c of Linux).
 *
 * Locking: all settings are read and written under RTNL, which dcbnl, ethtool and the notifier hold.
 * The lock of a NIC protects the counters, and the settings that packets are counted by.
 */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <linux/virtio_config.h>
#include <linux/virtio_net.h>
#include <linux/workqueue.h>
#include <net/dcbnl.h>
#include <net/dsfield.h>

#define PRIOS		IEEE_8021QAZ_MAX_TCS
#define DSCPS		64
#define BUFFER_CELL	128	/* bytes: mlx5 allocates buffers in cells */
#define BUFFER_TOTAL	262016	/* bytes: that of a ConnectX-5 */
#define BUFFER_PACKET	9216	/* bytes: mlx5 keeps room for the largest packet */
#define RATE_UNIT	100000	/* kbit/s: mlx5 limits rates in units of 100 Mb/s and, above 255 of them, of 1 Gb/s */
#define CABLE_METERS	7	/* mlx5's default */
#define CABLE_LIMIT	1000
#define QUANTUM_PS	5120	/* 512 bits at 100 Gb/s; a virtio NIC has no speed of its own */
#define LINK_DOWN	HZ	/* for how long a change of PFC takes the carrier away */

#define OPCODE_PAUSE	0x0001
#define OPCODE_PFC	0x0101

/* The frame of IEEE 802.1Qbb. That of a pause has the time of the first priority in the place of enabled. */
struct pfc_frame {
	__be16 opcode;
	__be16 enabled;
	__be16 quanta[PRIOS];
} __packed;

struct pause_count {
	u64 frames;
	u64 ns;			/* for which the frames asked the NIC not to send */
	u64 transitions;	/* from paused to not paused */
	u64 until;		/* ns; 0: not paused */
};

/* Index of the counters per direction. */
enum { RX, TX, DIRECTIONS };

struct nic {
	struct list_head list;
	struct net_device *dev;
	const struct ethtool_ops *driver_ops;
	struct ethtool_ops ops;	/* the driver's, with ours in some places */
	struct packet_type tap;
	struct delayed_work link_up;

	struct ieee_ets ets;
	struct ieee_maxrate rate;
	struct dcbnl_buffer buffer;
	struct ethtool_pauseparam pause;
	u16 cable_meters;
	u8 pfc;			/* a bit for each priority */
	u8 lossless;		/* a bit for each buffer */
	u8 dcbx;
	u8 apps;		/* number of DSCPs in the APP table */

	spinlock_t lock;	/* of what follows */
	u8 prio_of[DSCPS];
	u8 trust[2];		/* selectors, the first one first */
	u8 trusts;		/* how many */
	u64 packets[DIRECTIONS][PRIOS];
	u64 bytes[DIRECTIONS][PRIOS];
	struct pause_count pauses[DIRECTIONS][PRIOS];
	struct pause_count global[DIRECTIONS];
};

static LIST_HEAD(nics);		/* under RTNL */

static char *except[8];
static int excepts;
module_param_array(except, charp, &excepts, 0444);
MODULE_PARM_DESC(except, "MAC addresses of NICs that are left as they are");

/* The NIC of a device whose operations are ours. The caller holds RTNL. */
static struct nic *nic_of(struct net_device *dev)
{
	return container_of(dev->ethtool_ops, struct nic, ops);
}

/* ---- counting ---- */

/* The priority of a packet, as the trusted field gives it. Other packets have priority 0. */
static unsigned int prio_of(const struct nic *nic, const struct sk_buff *skb, bool sent)
{
	int l3 = skb_network_offset(skb), dscp = -1, pcp = -1, i;
	__be16 proto = skb->protocol;
	struct vlan_hdr vlan, *tag;
	struct ipv6hdr ip6, *v6;
	struct iphdr ip4, *v4;

	if (skb_vlan_tag_present(skb)) {
		pcp = skb_vlan_tag_get_prio(skb);
	} else if (eth_type_vlan(proto)) {	/* a received tag is no longer in the data */
		tag = skb_header_pointer(skb, sent ? ETH_HLEN : 0, sizeof(vlan), &vlan);
		if (tag) {
			pcp = ntohs(tag->h_vlan_TCI) >> VLAN_PRIO_SHIFT;
			proto = tag->h_vlan_encapsulated_proto;
		}
	}
	if (proto == htons(ETH_P_IP)) {
		v4 = skb_header_pointer(skb, l3, sizeof(ip4), &ip4);
		if (v4)
			dscp = ipv4_get_dsfield(v4) >> 2;
	} else if (proto == htons(ETH_P_IPV6)) {
		v6 = skb_header_pointer(skb, l3, sizeof(ip6), &ip6);
		if (v6)
			dscp = ipv6_get_dsfield(v6) >> 2;
	}
	for (i = 0; i < nic->trusts; i++) {
		if (nic->trust[i] == IEEE_8021QAZ_APP_SEL_DSCP && dscp >= 0)
			return nic->prio_of[dscp];
		if (nic->trust[i] == DCB_APP_SEL_PCP && pcp >= 0)
			return pcp;
	}
	return 0;
}

/*
 * The bytes on the wire, without the checksum. Received packets of one TCP stream come as one packet, without
 * the headers of all but the first.
 */
static unsigned int bytes_of(const struct sk_buff *skb, bool sent, unsigned int packets)
{
	unsigned int l4 = skb_transport_offset(skb), bytes = skb->len;
	struct tcphdr tcp, *header;

	if (sent)
		return bytes;	/* the lab's NICs have no segmentation offload: packets come here cut */
	bytes += ETH_HLEN + (skb_vlan_tag_present(skb) ? VLAN_HLEN : 0);
	if (packets > 1) {
		header = NULL;
		if (skb_shinfo(skb)->gso_type & (SKB_GSO_TCPV4 | SKB_GSO_TCPV6))
			header = skb_header_pointer(skb, l4, sizeof(tcp), &tcp);
		bytes += (packets - 1) * (ETH_HLEN + l4 + (header ? __tcp_hdrlen(header) : sizeof(struct udphdr)));
	}
	return bytes;
}

/* Ends a pause whose time is over. */
static void settle(struct pause_count *p, u64 now)
{
	if (p->until && p->until <= now) {
		p->transitions++;
		p->until = 0;
	}
}

/* Counts a frame that asks for a pause. One of 0 quanta ends the pause. */
static void count_pause(struct pause_count *p, u16 quanta, u64 now)
{
	u64 length = div_u64((u64)quanta * QUANTUM_PS, 1000);

	settle(p, now);
	p->frames++;
	if (p->until)
		p->ns -= p->until - now;	/* the new time replaces what is left of the old one */
	else if (!quanta)
		return;
	p->ns += length;
	p->until = now + length;
	settle(p, now);
}

/* Counts a pause or PFC frame, and reports whether it was one. */
static bool count_control(struct nic *nic, const struct sk_buff *skb, bool sent)
{
	struct pfc_frame frame, *f;
	u64 now = ktime_get_ns();
	int dir = sent ? TX : RX, i;

	if (skb->protocol != htons(ETH_P_PAUSE))
		return false;
	f = skb_header_pointer(skb, sent ? ETH_HLEN : 0, sizeof(frame), &frame);
	if (!f)
		return false;
	switch (ntohs(f->opcode)) {
	case OPCODE_PAUSE:
		count_pause(&nic->global[dir], ntohs(f->enabled), now);
		return true;
	case OPCODE_PFC:
		for (i = 0; i < PRIOS; i++)
			if (ntohs(f->enabled) & BIT(i))
				count_pause(&nic->pauses[dir][i], ntohs(f->quanta[i]), now);
		return true;
	}
	return false;
}

/* Sees each packet of a NIC, in both directions. Softirqs are off. The packet may be shared. */
static int tap(struct sk_buff *skb, struct net_device *dev, struct packet_type *type, struct net_device *orig)
{
	struct nic *nic = container_of(type, struct nic, tap);
	bool sent = skb->pkt_type == PACKET_OUTGOING;
	unsigned int packets = skb_is_gso(skb) ? max_t(unsigned int, skb_shinfo(skb)->gso_segs, 1) : 1;
	unsigned int prio;

	spin_lock(&nic->lock);
	if (!count_control(nic, skb, sent)) {
		prio = prio_of(nic, skb, sent);
		nic->packets[sent ? TX : RX][prio] += packets;
		nic->bytes[sent ? TX : RX][prio] += bytes_of(skb, sent, packets);
	}
	spin_unlock(&nic->lock);
	kfree_skb(skb);
	return NET_RX_SUCCESS;
}

/* ---- DCB ---- */

static int get_ets(struct net_device *dev, struct ieee_ets *ets)
{
	*ets = nic_of(dev)->ets;
	return 0;
}

static int set_ets(struct net_device *dev, struct ieee_ets *ets)
{
	struct nic *nic = nic_of(dev);
	int i, sum = 0;
	bool any = false;

	for (i = 0; i < PRIOS; i++) {
		if (ets->prio_tc[i] >= PRIOS)
			return -EINVAL;
		switch (ets->tc_tsa[i]) {
		case IEEE_8021QAZ_TSA_ETS:
			any = true;
			sum += ets->tc_tx_bw[i];
			break;
		case IEEE_8021QAZ_TSA_STRICT:
		case IEEE_8021QAZ_TSA_VENDOR:
			break;
		default:
			return -EOPNOTSUPP;
		}
	}
	if (any && sum != 100)
		return -EINVAL;
	/* mlx5 keeps neither the received side nor the recommendations for the peer. */
	for (i = 0; i < PRIOS; i++) {
		nic->ets.prio_tc[i] = ets->prio_tc[i];
		nic->ets.tc_tsa[i] = ets->tc_tsa[i];
		nic->ets.tc_tx_bw[i] = ets->tc_tsa[i] == IEEE_8021QAZ_TSA_ETS ? ets->tc_tx_bw[i] : 100;
	}
	return 0;
}

static int get_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct nic *nic = nic_of(dev);
	int i;

	pfc->pfc_cap = PRIOS;
	pfc->pfc_en = nic->pfc;
	pfc->delay = nic->cable_meters;
	spin_lock_bh(&nic->lock);
	for (i = 0; i < PRIOS; i++) {
		pfc->requests[i] = nic->pauses[TX][i].frames;
		pfc->indications[i] = nic->pauses[RX][i].frames;
	}
	spin_unlock_bh(&nic->lock);
	return 0;
}

/* The buffers that have a priority with PFC. */
static u8 lossless_buffers(u8 pfc, const u8 *buffer_of)
{
	u8 mask = 0;
	int i;

	for (i = 0; i < PRIOS; i++)
		if (pfc & BIT(i))
			mask |= BIT(buffer_of[i]);
	return mask;
}

/*
 * Like mlx5 (calculate_xoff and update_xoff_threshold in en/port_buffer.c): a lossless buffer holds what arrives after its
 * pause frame at 40 Gb/s, mlx5's lowest speed, and the largest packet.
 */
static int check_lossless(struct nic *nic, u8 lossless, const u32 *sizes)
{
	u32 least = (301 + 216 * nic->cable_meters / 100) * 40 + 272 * nic->dev->mtu / 100 + BUFFER_PACKET + BUFFER_CELL;
	int i;

	for (i = 0; i < DCBX_MAX_BUFFERS; i++)
		if (lossless & BIT(i) && sizes[i] < least)
			return -ENOMEM;
	return 0;
}

/* Like mlx5, PFC stays changed if the buffers of its priorities are too small. */
static int set_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct nic *nic = nic_of(dev);
	bool changed = pfc->pfc_en != nic->pfc;
	u8 lossless;
	int err;

	if (changed) {
		nic->pfc = pfc->pfc_en;
		/* mlx5 writes the register of flow control (PFCC) as a whole: PFC switches global pause off. */
		nic->pause.rx_pause = 0;
		nic->pause.tx_pause = 0;
		netif_carrier_off(dev);
		mod_delayed_work(system_wq, &nic->link_up, LINK_DOWN);
	}
	if (pfc->delay && pfc->delay < CABLE_LIMIT)
		nic->cable_meters = pfc->delay;
	lossless = lossless_buffers(nic->pfc, nic->buffer.prio2buffer);
	if (!changed || lossless == nic->lossless)
		return 0;
	err = check_lossless(nic, lossless, nic->buffer.buffer_size);
	if (!err)
		nic->lossless = lossless;
	return err;
}

/* The other half of a change of PFC. A cable that was cut meanwhile stays without a carrier. */
static void link_up(struct work_struct *work)
{
	struct nic *nic = container_of(work, struct nic, link_up.work);
	struct virtio_device *vdev = dev_to_virtio(nic->dev->dev.parent);
	u16 status = VIRTIO_NET_S_LINK_UP;

	if (virtio_has_feature(vdev, VIRTIO_NET_F_STATUS))
		virtio_cread_le(vdev, struct virtio_net_config, status, &status);
	if (netif_running(nic->dev) && status & VIRTIO_NET_S_LINK_UP)
		netif_carrier_on(nic->dev);
}

static int get_maxrate(struct net_device *dev, struct ieee_maxrate *rate)
{
	*rate = nic_of(dev)->rate;
	return 0;
}

static int set_maxrate(struct net_device *dev, struct ieee_maxrate *rate)
{
	struct nic *nic = nic_of(dev);
	u64 unit, kbps;
	int i;

	for (i = 0; i < PRIOS; i++) {
		kbps = rate->tc_maxrate[i];
		unit = kbps < roundup(255 * RATE_UNIT, 10 * RATE_UNIT) ? RATE_UNIT : 10 * RATE_UNIT;
		nic->rate.tc_maxrate[i] = kbps ? max(div64_u64(kbps, unit), 1ULL) * unit : 0;
	}
	return 0;
}

static int get_buffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	*buffer = nic_of(dev)->buffer;
	return 0;
}

/* Like mlx5 (mlx5e_port_manual_buffer_config), new buffers of priorities are first held against the old sizes. */
static int set_buffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	struct nic *nic = nic_of(dev);
	u8 lossless = nic->lossless;
	u32 sizes[DCBX_MAX_BUFFERS];
	u64 sum = 0;
	int err, i;

	for (i = 0; i < DCBX_MAX_BUFFERS; i++) {
		sizes[i] = rounddown(buffer->buffer_size[i], BUFFER_CELL);
		sum += sizes[i];
	}
	if (sum > nic->buffer.total_size)
		return -EINVAL;
	for (i = 0; i < PRIOS; i++)
		if (buffer->prio2buffer[i] >= DCBX_MAX_BUFFERS)
			return -EINVAL;
	if (memcmp(nic->buffer.prio2buffer, buffer->prio2buffer, PRIOS)) {
		lossless = lossless_buffers(nic->pause.rx_pause || nic->pause.tx_pause ? 0xff : nic->pfc, buffer->prio2buffer);
		err = lossless == nic->lossless ? 0 : check_lossless(nic, lossless, nic->buffer.buffer_size);
		if (err)
			return err;
	}
	err = memcmp(nic->buffer.buffer_size, sizes, sizeof(sizes)) ? check_lossless(nic, lossless, sizes) : 0;
	if (err)
		return err;
	nic->lossless = lossless;
	memcpy(nic->buffer.buffer_size, sizes, sizeof(sizes));
	memcpy(nic->buffer.prio2buffer, buffer->prio2buffer, sizeof(nic->buffer.prio2buffer));
	return 0;
}

static void trust(struct nic *nic, const u8 *selectors, int n)
{
	spin_lock_bh(&nic->lock);
	memcpy(nic->trust, selectors, n);
	nic->trusts = n;
	spin_unlock_bh(&nic->lock);
}

/* A choice of this module: mlx5 shows its trust only by the APP table. */
static int set_apptrust(struct net_device *dev, u8 *selectors, int n)
{
	struct nic *nic = nic_of(dev);
	int i;

	if (n > ARRAY_SIZE(nic->trust))
		return -EOPNOTSUPP;
	for (i = 0; i < n; i++)
		if (selectors[i] != IEEE_8021QAZ_APP_SEL_DSCP && selectors[i] != DCB_APP_SEL_PCP)
			return -EOPNOTSUPP;
	trust(nic, selectors, n);
	return 0;
}

static int get_apptrust(struct net_device *dev, u8 *selectors, int *n)
{
	struct nic *nic = nic_of(dev);

	memcpy(selectors, nic->trust, nic->trusts);
	*n = nic->trusts;
	return 0;
}

static void map_dscp(struct nic *nic, u16 dscp, u8 prio)
{
	spin_lock_bh(&nic->lock);
	nic->prio_of[dscp] = prio;
	spin_unlock_bh(&nic->lock);
}

/* A DSCP has one priority. The first one switches the trust from PCP to DSCP. */
static int set_app(struct net_device *dev, struct dcb_app *app)
{
	struct dcb_app old = { .selector = app->selector, .protocol = app->protocol };
	const u8 dscp = IEEE_8021QAZ_APP_SEL_DSCP;
	struct nic *nic = nic_of(dev);
	bool added;
	int err;

	if (app->selector != dscp || app->protocol >= DSCPS || app->priority >= PRIOS)
		return -EINVAL;
	old.priority = nic->prio_of[app->protocol];
	added = dcb_ieee_delapp(dev, &old) != 0;
	err = dcb_ieee_setapp(dev, app);
	if (err)
		return err;
	map_dscp(nic, app->protocol, app->priority);
	if (added && !nic->apps++)
		trust(nic, &dscp, 1);
	return 0;
}

/* Without its entry, a DSCP has priority 0. Without any, the trust is in PCP again. */
static int del_app(struct net_device *dev, struct dcb_app *app)
{
	const u8 pcp = DCB_APP_SEL_PCP;
	struct nic *nic = nic_of(dev);
	int err;

	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP || app->protocol >= DSCPS)
		return -EINVAL;
	err = dcb_ieee_delapp(dev, app);
	if (err)
		return err;
	map_dscp(nic, app->protocol, 0);
	if (!--nic->apps)
		trust(nic, &pcp, 1);
	return 0;
}

static u8 get_dcbx(struct net_device *dev)
{
	return nic_of(dev)->dcbx;
}

/* Mode 0 leaves DCBX to the firmware. */
static u8 set_dcbx(struct net_device *dev, u8 mode)
{
	struct nic *nic = nic_of(dev);

	if (!mode) {
		nic->dcbx &= ~DCB_CAP_DCBX_HOST;
		return 0;
	}
	if (mode & DCB_CAP_DCBX_LLD_MANAGED || !(mode & DCB_CAP_DCBX_HOST))
		return 1;
	nic->dcbx = mode;
	return 0;
}

static const struct dcbnl_rtnl_ops dcb_ops = {
	.ieee_getets = get_ets,
	.ieee_setets = set_ets,
	.ieee_getpfc = get_pfc,
	.ieee_setpfc = set_pfc,
	.ieee_getmaxrate = get_maxrate,
	.ieee_setmaxrate = set_maxrate,
	.ieee_setapp = set_app,
	.ieee_delapp = del_app,
	.dcbnl_getbuffer = get_buffer,
	.dcbnl_setbuffer = set_buffer,
	.dcbnl_getapptrust = get_apptrust,
	.dcbnl_setapptrust = set_apptrust,
	.getdcbx = get_dcbx,
	.setdcbx = set_dcbx,
};

/* ---- ethtool ---- */

static void get_pause(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	*pause = nic_of(dev)->pause;
}

static int set_pause(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	struct nic *nic = nic_of(dev);

	if (pause->autoneg)
		return -EINVAL;
	nic->pause.rx_pause = pause->rx_pause;
	nic->pause.tx_pause = pause->tx_pause;
	if (pause->rx_pause || pause->tx_pause)
		nic->pfc = 0;
	return 0;
}

/* An iterator over the statistics: it writes names, values, or neither, and counts. */
struct writer {
	u8 *names;
	u64 *values;
	int n;
};

static void put(struct writer *w, u64 value, const char *format, int prio)
{
	if (w->names)
		ethtool_sprintf(&w->names, format, prio);
	if (w->values)
		*w->values++ = value;
	w->n++;
}

static void put_pauses(struct writer *w, struct pause_count *rx, const struct pause_count *tx, bool global, int prio)
{
	settle(rx, ktime_get_ns());
	put(w, rx->frames, global ? "rx_global_pause" : "rx_prio%d_pause", prio);
	put(w, div_u64(rx->ns, 1000), global ? "rx_global_pause_duration" : "rx_prio%d_pause_duration", prio);
	put(w, tx->frames, global ? "tx_global_pause" : "tx_prio%d_pause", prio);
	put(w, div_u64(tx->ns, 1000), global ? "tx_global_pause_duration" : "tx_prio%d_pause_duration", prio);
	put(w, rx->transitions, global ? "rx_global_pause_transition" : "rx_prio%d_pause_transition", prio);
}

/*
 * The order and the names of mlx5's en_stats.c: pport_per_prio_traffic_stats_desc and
 * pport_per_prio_pfc_stats_desc. As there, pauses are shown of the priorities that have PFC, and those of
 * the whole link only with global pause.
 */
static int put_stats(struct nic *nic, struct writer w)
{
	int i;

	spin_lock_bh(&nic->lock);
	for (i = 0; i < PRIOS; i++) {
		put(&w, nic->bytes[RX][i], "rx_prio%d_bytes", i);
		put(&w, nic->packets[RX][i], "rx_prio%d_packets", i);
		put(&w, 0, "rx_prio%d_discards", i);	/* this NIC drops nothing */
		put(&w, nic->bytes[TX][i], "tx_prio%d_bytes", i);
		put(&w, nic->packets[TX][i], "tx_prio%d_packets", i);
	}
	for (i = 0; i < PRIOS; i++)
		if (nic->pfc & BIT(i))
			put_pauses(&w, &nic->pauses[RX][i], &nic->pauses[TX][i], false, i);
	if (nic->pause.rx_pause || nic->pause.tx_pause)
		put_pauses(&w, &nic->global[RX], &nic->global[TX], true, 0);
	spin_unlock_bh(&nic->lock);
	return w.n;
}

static int driver_stats(struct nic *nic, int set)
{
	if (!nic->driver_ops->get_sset_count)
		return 0;
	return max(nic->driver_ops->get_sset_count(nic->dev, set), 0);
}

static int get_sset_count(struct net_device *dev, int set)
{
	struct nic *nic = nic_of(dev);

	if (set == ETH_SS_STATS)
		return driver_stats(nic, set) + put_stats(nic, (struct writer){});
	if (nic->driver_ops->get_sset_count)
		return nic->driver_ops->get_sset_count(dev, set);
	return -EOPNOTSUPP;
}

static void get_strings(struct net_device *dev, u32 set, u8 *names)
{
	struct nic *nic = nic_of(dev);

	if (nic->driver_ops->get_strings)
		nic->driver_ops->get_strings(dev, set, names);
	if (set == ETH_SS_STATS)
		put_stats(nic, (struct writer){ .names = names + driver_stats(nic, set) * ETH_GSTRING_LEN });
}

static void get_stats(struct net_device *dev, struct ethtool_stats *stats, u64 *values)
{
	struct nic *nic = nic_of(dev);

	if (nic->driver_ops->get_ethtool_stats)
		nic->driver_ops->get_ethtool_stats(dev, stats, values);
	put_stats(nic, (struct writer){ .values = values + driver_stats(nic, ETH_SS_STATS) });
}

/* ---- NICs that come and go ---- */

static bool wanted(const struct net_device *dev)
{
	const struct device *parent = dev->dev.parent;
	u8 mac[ETH_ALEN];
	int i;

	if (!parent || !parent->driver || strcmp(parent->driver->name, "virtio_net") || dev->dcbnl_ops || !dev->ethtool_ops)
		return false;
	for (i = 0; i < excepts; i++)
		if (mac_pton(except[i], mac) && ether_addr_equal_unaligned(mac, dev->dev_addr))
			return false;
	return true;
}

/* IEEE 802.3 annex 31B: pause frames go to this address. A plain NIC drops what goes to an address that nobody wants. */
static const u8 pause_address[ETH_ALEN] = { 0x01, 0x80, 0xc2, 0x00, 0x00, 0x01 };

static void attach(struct net_device *dev)
{
	struct nic *nic = kzalloc(sizeof(*nic), GFP_KERNEL);
	int i;

	if (!nic) {
		netdev_warn(dev, "dcbnic: no memory\n");
		return;
	}
	nic->dev = dev;
	nic->driver_ops = dev->ethtool_ops;
	nic->ops = *dev->ethtool_ops;
	nic->ops.get_pauseparam = get_pause;
	nic->ops.set_pauseparam = set_pause;
	nic->ops.get_sset_count = get_sset_count;
	nic->ops.get_strings = get_strings;
	nic->ops.get_ethtool_stats = get_stats;
	spin_lock_init(&nic->lock);
	INIT_DELAYED_WORK(&nic->link_up, link_up);

	/* What an mlx5 NIC has after boot. */
	nic->ets.ets_cap = PRIOS;
	for (i = 0; i < PRIOS; i++) {
		nic->ets.prio_tc[i] = i < 2 ? 1 - i : i;
		nic->ets.tc_tsa[i] = IEEE_8021QAZ_TSA_VENDOR;
		nic->ets.tc_tx_bw[i] = 100;
	}
	nic->dcbx = DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_CEE | DCB_CAP_DCBX_VER_IEEE;
	nic->pause.rx_pause = 1;
	nic->pause.tx_pause = 1;
	nic->cable_meters = CABLE_METERS;
	nic->buffer.total_size = BUFFER_TOTAL;
	nic->buffer.buffer_size[0] = BUFFER_TOTAL;
	nic->trust[0] = DCB_APP_SEL_PCP;
	nic->trusts = 1;

	nic->tap.type = htons(ETH_P_ALL);
	nic->tap.dev = dev;
	nic->tap.func = tap;
	dev_add_pack(&nic->tap);
	if (dev_mc_add(dev, pause_address))
		netdev_warn(dev, "dcbnic: pause frames will not be received\n");
	dev->ethtool_ops = &nic->ops;
	dev->dcbnl_ops = &dcb_ops;
	list_add(&nic->list, &nics);
}

static void detach(struct nic *nic)
{
	struct dcb_app app = { .selector = IEEE_8021QAZ_APP_SEL_DSCP };

	list_del(&nic->list);
	for (app.protocol = 0; app.protocol < DSCPS; app.protocol++) {	/* this calls our operations */
		app.priority = nic->prio_of[app.protocol];
		dcb_ieee_delapp(nic->dev, &app);	/* most of them do not exist */
	}
	nic->dev->dcbnl_ops = NULL;
	nic->dev->ethtool_ops = nic->driver_ops;
	dev_mc_del(nic->dev, pause_address);
	dev_remove_pack(&nic->tap);	/* waits until no packet is in it */
	if (cancel_delayed_work_sync(&nic->link_up))
		link_up(&nic->link_up.work);
	kfree(nic);
}

static struct nic *find(const struct net_device *dev)
{
	struct nic *nic;

	list_for_each_entry(nic, &nics, list)
		if (nic->dev == dev)
			return nic;
	return NULL;
}

/*
 * Called under RTNL. A NIC that moves to another network namespace is unregistered and registered: it gets
 * new settings, because the kernel empties its APP table. The kernel registers all NICs for a new notifier,
 * and unregisters them for one that goes, so that loading and unloading need nothing else.
 */
static int changed(struct notifier_block *block, unsigned long event, void *data)
{
	struct net_device *dev = netdev_notifier_info_to_dev(data);
	struct nic *nic;

	if (event == NETDEV_REGISTER && wanted(dev)) {
		attach(dev);
	} else if (event == NETDEV_UNREGISTER) {
		nic = find(dev);
		if (nic)
			detach(nic);
	}
	return NOTIFY_DONE;
}

static struct notifier_block notifier = { .notifier_call = changed };

static int __init dcbnic_init(void)
{
	u8 mac[ETH_ALEN];
	int i;

	for (i = 0; i < excepts; i++)
		if (!mac_pton(except[i], mac)) {
			pr_err("dcbnic: except=%s is not a MAC address\n", except[i]);
			return -EINVAL;
		}
	return register_netdevice_notifier(&notifier);
}

static void __exit dcbnic_exit(void)
{
	unregister_netdevice_notifier(&notifier);
}

module_init(dcbnic_init);
module_exit(dcbnic_exit);
MODULE_LICENSE("GPL");
MODULE_AUTHOR("The fabricform authors");
MODULE_DESCRIPTION("QoS controls of an mlx5 NIC for virtio NICs, for rehearsals");
