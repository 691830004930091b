package config

import (
	"fmt"
	"math/big"
	"net/netip"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// addressFunctions returns Terraform's cidr functions, for IPv4 and IPv6.
func addressFunctions() map[string]function.Function {
	m := map[string]function.Function{}
	m["cidrnetmask"] = stringFunc(1, func(a []string) (string, error) {
		p, err := netip.ParsePrefix(a[0])
		if err != nil || !p.Addr().Is4() {
			return "", fmt.Errorf("%q is not an IPv4 network such as 10.0.0.0/24", a[0])
		}
		return subnetAddr(netip.PrefixFrom(netip.MustParseAddr("255.255.255.255"), p.Bits()).Masked().Addr(), 0, 0).String(), nil
	})
	m["cidrhost"] = cidrFunc(1, cty.String, func(p netip.Prefix, n []int64) (cty.Value, error) {
		size := p.Addr().BitLen() - p.Bits()
		k := n[0]
		limit := new(big.Int).Lsh(big.NewInt(1), uint(size))
		v := big.NewInt(k)
		if k < 0 {
			v.Add(v, limit)
		}
		if v.Sign() < 0 || v.Cmp(limit) >= 0 {
			return cty.NilVal, fmt.Errorf("%s has no host number %d", p, k)
		}
		return cty.StringVal(addBig(p.Masked().Addr(), v).String()), nil
	})
	m["cidrsubnet"] = cidrFunc(2, cty.String, func(p netip.Prefix, n []int64) (cty.Value, error) {
		bits := int64(p.Bits()) + n[0]
		if n[0] < 0 || n[0] > 62 || bits > int64(p.Addr().BitLen()) || n[1] < 0 || n[1] >= 1<<n[0] {
			return cty.NilVal, fmt.Errorf("%s has no subnet number %d when extended by %d bits", p, n[1], n[0])
		}
		a := subnetAddr(p.Masked().Addr(), n[1], p.Addr().BitLen()-int(bits))
		return cty.StringVal(netip.PrefixFrom(a, int(bits)).String()), nil
	})
	m["cidrsubnets"] = cidrFunc(-1, cty.List(cty.String), cidrSubnets)
	return m
}

func cidrSubnets(p netip.Prefix, n []int64) (cty.Value, error) {
	at := new(big.Int)
	end := new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
	var out []cty.Value
	for _, nb := range n {
		bits := int64(p.Bits()) + nb
		if nb < 1 || bits > int64(p.Addr().BitLen()) {
			return cty.NilVal, fmt.Errorf("%s cannot be extended by %d bits", p, nb)
		}
		step := new(big.Int).Lsh(big.NewInt(1), uint(int64(p.Addr().BitLen())-bits))
		if rest := new(big.Int).Mod(at, step); rest.Sign() != 0 {
			at.Add(at, new(big.Int).Sub(step, rest))
		}
		a := addBig(p.Masked().Addr(), at)
		if at.Add(at, step).Cmp(end) > 0 {
			return cty.NilVal, fmt.Errorf("%s has no room for these subnets", p)
		}
		out = append(out, cty.StringVal(netip.PrefixFrom(a, int(bits)).String()))
	}
	if len(out) == 0 {
		return cty.ListValEmpty(cty.String), nil
	}
	return cty.ListVal(out), nil
}

func subnetAddr(a netip.Addr, n int64, shift int) netip.Addr {
	return addBig(a, new(big.Int).Lsh(big.NewInt(n), uint(shift)))
}

func addBig(a netip.Addr, n *big.Int) netip.Addr {
	sum := new(big.Int).Add(new(big.Int).SetBytes(a.AsSlice()), n)
	out, _ := netip.AddrFromSlice(sum.FillBytes(make([]byte, a.BitLen()/8)))
	return out
}

func cidrFunc(n int, ret cty.Type, f func(netip.Prefix, []int64) (cty.Value, error)) function.Function {
	spec := &function.Spec{Params: []function.Parameter{{Name: "prefix", Type: cty.String}}, Type: function.StaticReturnType(ret)}
	for range n {
		spec.Params = append(spec.Params, function.Parameter{Name: "n", Type: cty.Number})
	}
	if n < 0 {
		spec.VarParam = &function.Parameter{Name: "newbits", Type: cty.Number}
	}
	spec.Impl = func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		p, err := netip.ParsePrefix(args[0].AsString())
		if err != nil {
			return cty.NilVal, function.NewArgErrorf(0, "%q is not a network such as 10.0.0.0/24", args[0].AsString())
		}
		var nums []int64
		for i, a := range args[1:] {
			k, acc := a.AsBigFloat().Int64()
			if acc != big.Exact {
				return cty.NilVal, function.NewArgErrorf(i+1, "must be a whole number")
			}
			nums = append(nums, k)
		}
		return f(p, nums)
	}
	return function.New(spec)
}
