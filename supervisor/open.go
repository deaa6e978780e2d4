package supervisor

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"sidecar/config"
)

// open opens every listener that is not open yet, or none. An address can be in
// the way of another one with the same port, as 127.0.0.1:9901 is of
// 0.0.0.0:9901. One that is not needed any more makes room, last of all: for
// this moment alone nobody accepts there.
func (s *Supervisor) open(c *config.Config) (map[string]*port, error) {
	opened := map[string]*port{}
	var late []listener
	var moved []*port
	fail := func(l listener, err error) (map[string]*port, error) {
		err = fmt.Errorf("%s cannot listen on %s: %w; free the port or choose another", l.owner, l.address, err)
		for _, p := range opened {
			_ = p.listener.Close()
		}
		for _, p := range moved {
			err = errors.Join(err, p.reopen())
		}
		return nil, err
	}
	needed := listeners(c)
	for _, l := range needed {
		if s.ports[l.address] != nil || opened[l.address] != nil {
			continue
		}
		p, err := openPort(l.address, s.o.ErrorLog)
		switch {
		case err == nil:
			opened[l.address] = p
		case len(s.inTheWay(l, needed)) > 0:
			late = append(late, l)
		default:
			return fail(l, err)
		}
	}
	for _, l := range late {
		for _, p := range s.inTheWay(l, needed) {
			_ = p.listener.Close()
			moved = append(moved, p)
		}
		p, err := openPort(l.address, s.o.ErrorLog)
		if err != nil {
			return fail(l, err)
		}
		opened[l.address] = p
	}
	return opened, nil
}

// inTheWay lists the open ports with the number of l that nobody needs any
// more.
func (s *Supervisor) inTheWay(l listener, needed []listener) (found []*port) {
	_, number, _ := net.SplitHostPort(l.address)
	for address, p := range s.ports {
		_, n, _ := net.SplitHostPort(address)
		if n == number && !slices.ContainsFunc(needed, func(l listener) bool { return l.address == address }) {
			found = append(found, p)
		}
	}
	return found
}
