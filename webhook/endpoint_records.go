package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	// saveEvery is the interval at which failures of endpoints are saved. Opening, closing
	// and disabling an endpoint are saved immediately.
	saveEvery = 15 * time.Second
	// refreshEvery is the minimum interval between reads of the endpoint records that other
	// processes saved: of open and disabled endpoints, and of those to be enabled.
	refreshEvery = time.Second

	// Lanes of an endpoint that recovered are woken as it has capacity: up to wakeBatch at
	// a time, checked every wakeEvery. Waking ends in one of three cases:
	//   - wakeFor has passed.
	//   - Two attempts in a row, wakeRetry apart, found no lanes.
	//   - Circuit breakers have deferred maxWakeRefused lanes.
	wakeBatch      = 64
	wakeEvery      = 25 * time.Millisecond
	wakeFor        = time.Minute
	wakeRetry      = time.Second
	maxWakeRefused = 128
)

// load restores the state of endpoints from the store.
func (g *endpointRegistry) load(ctx context.Context) error {
	records, err := g.cfg.Store.Endpoints(ctx)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	for _, r := range records {
		e := g.limits.endpoint(nameOfRecord(r.Name))
		e.restore(r, now)
		e.host.failures += r.Failures
		e.stored, e.savedAt, e.usedAt = true, r.UpdatedAt, now
	}
	return nil
}

// maintain saves changed endpoints and wakes the lanes of recovered ones.
func (g *endpointRegistry) maintain(ctx context.Context, beat func()) {
	saved, applied := g.now(), time.Time{}
	for ctx.Err() == nil {
		now, wait := g.now(), saveEvery
		if g.wakeLanes(ctx) {
			wait = wakeEvery
		}
		if all := now.Sub(saved) >= saveEvery; all || g.takeSaveNow() {
			saved = now
			g.save(ctx)
		}
		if left := refreshEvery - now.Sub(applied).Abs(); left <= 0 {
			if g.applyEnabled(ctx) {
				applied = now
			}
		} else {
			wait = min(wait, left)
		}
		beat()
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-g.changed:
			g.mu.Lock()
			g.saveNow = true
			g.mu.Unlock()
		case <-g.work:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (g *endpointRegistry) takeSaveNow() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	urgent := g.saveNow
	g.saveNow = false
	return urgent
}

// save saves changed endpoints.
func (g *endpointRegistry) save(ctx context.Context) {
	type change struct {
		e      *endpoint
		record store.Endpoint
	}
	var changes []change
	now := g.now()
	g.mu.Lock()
	for _, e := range g.limits.endpoints {
		if e.dirty {
			e.dirty = false
			if r := e.record(e.name.record(), now); e.stored || e.failures > 0 || e.disabled {
				e.stored, e.savedAt = e.failures > 0 || e.disabled, r.UpdatedAt
				changes = append(changes, change{e, r})
			}
		}
	}
	g.mu.Unlock()
	for _, c := range changes {
		if err := g.cfg.Store.SaveEndpoint(ctx, c.record); err != nil {
			g.mu.Lock()
			c.e.dirty, c.e.stored = true, true
			g.mu.Unlock()
			if ctx.Err() == nil {
				g.log.Warn("saving the state of a webhook endpoint failed", "endpoint", c.e.name.address, "error", err)
			}
		}
	}
}

// enable enables a disabled endpoint, because a webhook of it was saved or replayed. If
// another process may have disabled it, the store is checked soon after.
func (g *endpointRegistry) enable(ctx context.Context, name endpointName) error {
	g.mu.Lock()
	e := g.limits.endpoints[name]
	disabled := e != nil && e.disabled
	if disabled {
		g.enableLocked(e)
	} else {
		g.toEnable[name] = true
		g.work.Send()
	}
	g.mu.Unlock()
	if !disabled {
		return nil
	}
	if err := g.cfg.Store.SaveEndpoint(ctx, store.Endpoint{Name: name.record(), UpdatedAt: store.Time(g.now())}); err != nil {
		return fmt.Errorf("enable endpoint %s: %w", name.address, err)
	}
	return nil
}

// applyEnabled enables those endpoints in g.toEnable that another process has disabled in
// the store. It reports whether it read the store.
func (g *endpointRegistry) applyEnabled(ctx context.Context) bool {
	g.mu.Lock()
	enabled := g.toEnable
	g.toEnable = make(map[endpointName]bool)
	g.mu.Unlock()
	if len(enabled) == 0 {
		return false
	}
	records, err := g.cfg.Store.Endpoints(ctx)
	for _, r := range records {
		if err == nil && r.Disabled && enabled[nameOfRecord(r.Name)] {
			err = g.cfg.Store.SaveEndpoint(ctx, store.Endpoint{Name: r.Name, UpdatedAt: store.Time(g.now())})
		}
	}
	if err != nil {
		g.log.Warn("enabling webhook endpoints failed", "error", err)
		g.mu.Lock()
		defer g.mu.Unlock()
		for name := range enabled {
			g.toEnable[name] = true
		}
	}
	return true
}

// refresh reads the endpoint records of other processes if endpoints of the claimed
// lanes are open or disabled here.
func (g *endpointRegistry) refresh(ctx context.Context, claimed []store.ClaimedLane) {
	g.mu.Lock()
	now, ask := g.now(), false
	for i := range claimed {
		e := g.limits.endpoints[g.endpointOf(&claimed[i].Webhook)]
		if e != nil && claimed[i].State == store.LaneActive {
			ask = ask || e.disabled || e.open && now.Sub(g.readAt).Abs() >= refreshEvery
		}
	}
	g.mu.Unlock()
	if ask {
		g.sync(ctx)
	}
}

// sync updates open and disabled endpoints from newer records in the store: another
// process may have reached or disabled them.
func (g *endpointRegistry) sync(ctx context.Context) {
	asked := g.now()
	records, err := g.cfg.Store.Endpoints(ctx)
	if err != nil {
		g.log.Warn("reading webhook endpoints failed", "error", err)
		return
	}
	byName := make(map[string]store.Endpoint, len(records))
	for _, r := range records {
		byName[r.Name] = r
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.readAt = asked
	for name, e := range g.limits.endpoints {
		r, found := byName[name.record()]
		switch {
		case e.dirty || !e.open && !e.disabled || e.savedAt.After(asked):
		case !found && e.disabled:
			e.reset()
			e.stored = false
		case !found && e.stored:
			e.openUntil, e.stored, e.dirty = asked, false, true // another process has reached it
		case found && r.UpdatedAt.After(e.savedAt):
			e.restore(r, asked)
			e.savedAt = r.UpdatedAt
		}
	}
}

// wakeLanes wakes lanes of endpoints that recovered or have capacity again, up to their
// limits. It reports whether more lanes remain to be woken.
func (g *endpointRegistry) wakeLanes(ctx context.Context) (waking bool) {
	now := g.now()
	limits, asked := make(map[*endpoint]int), make(map[*host]bool) // one endpoint per host: lanes are woken by address
	g.mu.Lock()
	for e := range g.limits.waking {
		if e.wake.active = e.wake.active && now.Sub(e.wake.startedAt).Abs() < wakeFor && e.host.breakerRefused < maxWakeRefused; !e.wake.active {
			delete(g.limits.waking, e)
			continue
		}
		waking = true
		if now.Sub(e.host.wokenAt) > wakeRetry {
			e.host.woken = 0 // other processes claimed them
		}
		if g.limits.needsLanes(e, now) && !now.Before(e.wake.nextAt) && !asked[e.host] {
			asked[e.host] = true
			limits[e] = min(max(waitingPerSlot*e.slots(now, g.limits.perEndpoint)-len(e.waiting)-e.host.woken, 1), wakeBatch)
		}
	}
	g.mu.Unlock()
	for e, limit := range limits {
		n, err := g.cfg.Store.WakeLanes(ctx, e.name.address, store.Time(now), limit)
		if err != nil && ctx.Err() == nil {
			g.log.Warn("resuming the webhooks of an endpoint failed", "endpoint", e.name.address, "error", err)
		}
		if n > 0 {
			g.wake.Send()
		}
		g.mu.Lock()
		e.recordWoken(n, now, err)
		g.mu.Unlock()
	}
	return waking
}

// recordWoken records that n lanes were woken, and when to continue.
func (e *endpoint) recordWoken(n int, now time.Time, err error) {
	switch {
	case n > 0:
		e.wake.foundNone, e.wake.nextAt = false, now
		e.host.woken, e.host.wokenAt = e.host.woken+n, now
	case err == nil && e.recentlyContended(now):
		e.wake.nextAt = now.Add(wakeEvery)
	case err == nil && e.wake.foundNone:
		e.wake.active = false
	default:
		e.wake.foundNone, e.wake.nextAt = err == nil, now.Add(wakeRetry)
	}
}

// forgetIdle removes unused endpoints from memory.
func (g *endpointRegistry) forgetIdle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limits.forgetIdle(g.now())
}

// sweep removes stale endpoint records from the store.
func (g *endpointRegistry) sweep(ctx context.Context, beat func()) {
	records, err := g.cfg.Store.Endpoints(ctx)
	now := g.now()
	for i := range records {
		var b breaker
		if b.restore(records[i], now); !b.stale(now) || ctx.Err() != nil {
			continue
		}
		beat()
		if err = g.cfg.Store.SaveEndpoint(ctx, store.Endpoint{Name: records[i].Name, UpdatedAt: store.Time(now)}); err != nil {
			break
		}
	}
	if err != nil && ctx.Err() == nil {
		g.log.Warn("removing old webhook endpoints failed", "error", err)
	}
}
