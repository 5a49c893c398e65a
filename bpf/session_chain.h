/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Failing chains: calls within each other along which an error came up. pop calls failed,
 * succeeded or passed for each call that returns.
 *
 * The session has one failing chain in place: the calls from index failing - 1 to top - 1,
 * which have all returned, the innermost one first. They remain behind the calls in
 * flight until another call takes their place. Before that ks_keep copies the chain to
 * kept: the caller's own result will tell whether it was the reason or has been dealt with. So
 * when call d returns, the chains that begin at index d + 1 are resolved or given up.
 *
 * The trail of a chain says how the kernel got to the return of its innermost call. It is
 * taken at that return, since the frames are gone afterwards.
 */
#ifndef KSNOOP_SESSION_CHAIN_H
#define KSNOOP_SESSION_CHAIN_H

// ks_take_stack stores the kernel stack at the current return in the session's trail.
FUNC int ks_take_stack(void *ctx, struct session *s)
{
	long n = bpf_get_stack(ctx, s->trail.stack, sizeof(s->trail.stack), 0);

	s->trail.stack_len = n > 0 ? n : 0;
	return 0;
}

// take_trail stores the stack and the branches of the current return.
static __always_inline void take_trail(void *ctx, struct session *s)
{
	struct trail *t = &s->trail;

	ks_take_stack(ctx, s);
	if (tail_settings.branches)
		t->branches_len = take_branches(t->branches, bpf_get_smp_processor_id(), s->ticket);
}

// send_chain sends a failing chain that was not the reason of its caller's result, if the
// user asked for these: the kept chain i, which hangs under the first n calls, or the one in
// place, with which the n calls end, if i is NONE.
static __always_inline void send_chain(struct session *s, __u64 n, __u32 i)
{
	if (!wanted.interim)
		return;
	s->chains = 1;
	ks_send_session(slot_of(s), SESSION_CHAIN, n, i, NONE);
}

// room_for returns which place of kept a chain takes that hangs under call from - 1 and ended
// with an error. First comes the place of a chain under the same call with the same error,
// then a free place, then the oldest chain under the same call, then the oldest one.
static __always_inline __u32 room_for(struct session *s, __u32 from, __u32 error)
{
	__u64 least = -1ULL;
	__u32 chosen = 0;

	for (__u32 i = 0; i < KEPT; i++) {
		struct chain *c = &s->kept[i];
		__u64 worth = 1;

		if (s->keeps >> i & 1) {
			worth = (c->from == from ? 2ULL : 3ULL) << 32 | c->changes;
			if (c->from == from && c->error == error)
				worth = 0;
		}
		if (worth < least) {
			least = worth;
			chosen = i;
		}
		chosen += nothing; // else the verifier would follow the rest for each choice
	}
	return chosen;
}

// ks_keep copies the chain in place to kept, before the next call of its caller takes its
// place.
FUNC int ks_keep(struct session *s)
{
	__u64 from = s->depth, n = s->top - from;
	__u32 i = room_for(s, from, s->error);
	struct chain *c;

	if (!from || from >= DEPTH || n > DEPTH - from || i >= KEPT)
		return 0;
	if (n > CHAIN) {
		s->rec.lost_deep += n - CHAIN;
		add(LOST_DEPTH, n - CHAIN);
		n = CHAIN;
	}
	c = &s->kept[i];
	if (s->keeps >> i & 1) {
		if (c->from != from || c->error != s->error) { // with the same error, the later one stands for both
			s->rec.lost_chains++;
			ks_count(LOST_CHAIN);
		}
		send_chain(s, c->from, i);
	}
	s->keeps |= 1 << i;
	c->from = from;
	c->size = n;
	c->error = s->error;
	c->changes = s->changes;
	bpf_probe_read_kernel(&c->trail, sizeof(c->trail), &s->trail);
	bpf_probe_read_kernel(c->calls, n * sizeof(struct call), at(s->calls, from));
	if (wanted.notes == NOTE_OFF_CPU)
		ks_off_keep(s, c);
	return 0;
}

// Which chain ks_give_up spares, besides the index of a kept one: that in place, or none.
enum { IN_PLACE = KEPT, NOTHING };

// ks_give_up gives up the failing chains that hang under call d, except for one: they are
// sent, if asked for, and their places become free.
FUNC int ks_give_up(struct session *s, __u64 d, __u32 except)
{
	if (except != IN_PLACE && s->failing == d + 2)
		send_chain(s, s->top, NONE);
	for (__u32 i = 0; i < KEPT; i++) {
		struct chain *c = &s->kept[i];

		if (!(s->keeps >> i & 1) || c->from != d + 1)
			continue;
		s->keeps &= ~(1 << i);
		if (i != except)
			send_chain(s, d + 1, i);
	}
	return 0;
}

// The error of a function that returns no errors.
#define UNKNOWN (-1U)

// absence reports whether an error says that something is not there.
static __always_inline int absence(__u32 error)
{
	const __u64 errors = 1ULL << ENOENT | 1ULL << ESRCH | 1ULL << ENXIO | 1ULL << EBADF | 1ULL << ENODEV | 1ULL << ENODATA;

	return error < 64 && errors >> error & 1;
}

// declined reports whether an error says that the callee does not know the option or the
// command, and that the caller shall ask another one. If nobody knows it, the caller returns
// another error.
static __always_inline int declined(__u32 error)
{
	return error == ENOPARAM || error == ENOIOCTLCMD;
}

// ks_explains returns how likely it is that a failing chain with the error cause is the reason
// of a caller's error: 2, 1, or 0 for not at all. recovered says that a later call succeeded.
// Between errors that means little, since the success may be that of the clean-up. But NULL
// often just means that there is nothing: it explains only the errors of absence, and only if
// no later call succeeded. It is one of those that the verifier checks by themselves, see alone
// in subprogram.go: ks_resolve asks it in a loop.
FUNC int ks_explains(__u32 cause, __u32 error, int recovered)
{
	if (cause == error || (!cause && error == ENOMEM))
		return 2;
	if (error == UNKNOWN)
		return !recovered;
	if (!cause)
		return !recovered && absence(error);
	return !declined(cause);
}

// ks_resolve looks for the reason of the error of call d, which has returned. Of the failing
// chains under it the most likely one, the latest of equals, is put in place; the others are
// given up. It returns 0 if none is the reason.
FUNC int ks_resolve(struct session *s, __u64 d, __u32 error)
{
	__u32 chosen = NOTHING;
	__u64 best = 0, n;
	struct chain *c;

	if (s->failing == d + 2) {
		best = (__u64)ks_explains(s->error, error, 0) << 32;
		if (best) {
			best |= -1U;
			chosen = IN_PLACE;
		}
	}
	for (__u32 i = 0; i < KEPT; i++) {
		__u64 likely;

		c = &s->kept[i];
		if (!(s->keeps >> i & 1) || c->from != d + 1)
			continue;
		likely = ks_explains(c->error, error, s->success > c->changes);
		if (likely && (likely << 32 | c->changes) > best) {
			best = (likely << 32 | c->changes) + nothing; // as chosen below
			chosen = i;
		}
		chosen += nothing; // else the verifier would follow the rest for each choice
	}
	ks_give_up(s, d, chosen);
	if (chosen >= KEPT)
		return chosen == IN_PLACE;
	c = &s->kept[chosen];
	n = c->size;
	if (n > CHAIN || d + 1 + n > DEPTH)
		return 0; // cannot be; the verifier does not know
	bpf_probe_read_kernel(&s->trail, sizeof(s->trail), &c->trail);
	bpf_probe_read_kernel(at(s->calls, d + 1), n * sizeof(struct call), c->calls);
	if (wanted.notes == NOTE_OFF_CPU)
		ks_off_restore(s, c);
	s->top = d + 1 + n;
	s->stitched = d + 1;
	s->jumped = 0;
	s->error = c->error;
	return 1;
}

// joins makes the innermost call, d, the outermost call of the chain in place.
static __always_inline void joins(void *ctx, struct session *s, __u32 d)
{
	struct call *c = at(s->calls, d);

	s->jumped &= c->flags;
	s->failing = d + 1;
	c->sp = ks_return_address(ctx);
	c->flags |= CALL_RETURNS;
}

// retake takes the stack again if the chain consists of tail calls only: each call has ended
// by a jump to the next one. Since Linux 6.14 such a callee returns to return_to_handler,
// which then handles the caller's return; the unwinder cannot go on from there, so the stack
// taken at the callee's return is cut. At the caller's return it is whole.
static __always_inline void retake(void *ctx, struct session *s)
{
	if (s->jumped)
		ks_take_stack(ctx, s);
}

// failed is for a call, the innermost one d, that has returned an error. It extends the chain
// that was the reason, or begins a new one.
static __always_inline void failed(void *ctx, struct session *s, __u32 d, __u64 result)
{
	__u32 error = -(__u32)result;

	if (ks_resolve(s, d, error)) {
		retake(ctx, s);
	} else {
		take_trail(ctx, s);
		s->top = d + 1;
		s->stitched = 0;
		s->jumped = CALL_JUMPED; // joins clears it unless the call has the flag, too
	}
	s->error = error;
	joins(ctx, s, d);
}

// passed is for a call whose result says nothing: it returns no errors, or is hidden. It
// extends a chain under it that nobody has dealt with.
static __always_inline void passed(void *ctx, struct session *s, __u32 d)
{
	if ((s->failing == d + 2 || s->keeps) && ks_resolve(s, d, UNKNOWN)) {
		retake(ctx, s);
		joins(ctx, s, d);
	}
}

// succeeded is for a call that has returned no error. The chains under it are given up.
static __always_inline void succeeded(struct session *s, __u32 d)
{
	if (s->failing == d + 2 || s->keeps)
		ks_give_up(s, d, NOTHING);
	s->success = s->changes;
	s->failing = 0;
}

#endif
