//! Fresh policies in the place of those there are, for the same shares and the same resident pages.

use super::{Share, Shares};
use forebay_basis::Operation;
use forebay_policy::{AllRefused, AnyPolicy, Caller, Reference, Setup, Spec};

impl Shares {
    /// The policy that was asked for.
    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The same under fresh policies of `spec`, which admit the resident pages in this order. `page_of` says which page a number below
    /// `given` stands for.
    ///
    /// # Panics
    /// If the policy does, or refuses a page.
    pub(crate) fn renewed(
        &self,
        spec: &Spec,
        residents: &[u32],
        page_of: impl Fn(u32) -> Option<Reference>,
        given: u32,
    ) -> Self {
        let pages = || residents.iter().filter_map(|&number| page_of(number));
        let has = |share: &Share, page: &Reference| self.of_object(page.place.object) == Some(share.number);
        let of_share = |share: &Share| pages().filter(|page| has(share, page)).count() as u32;
        let resident: Vec<u32> = self.shares.iter().map(of_share).collect();
        let in_common = residents.len() as u32 - resident.iter().sum::<u32>();
        // SH1 held before, with at least these capacities: so they fit. What is left goes to shares below their mins first.
        let taken = in_common.max(1) + resident.iter().map(|&resident| resident.max(1)).sum::<u32>();
        let mut left = self.capacity.saturating_sub(taken);
        let build = |capacity, pages| spec.build(&Setup { page_size: self.page_size, ..spec.setup(capacity, pages) });
        let renew = |(share, resident): (&Share, u32)| {
            let more = share.min.saturating_sub(resident.max(1)).min(left);
            left -= more;
            let policy = build(resident.max(1) + more, 1);
            Share { policy, numbers: Vec::new(), free: Vec::new(), reserved: 1, ..*share }
        };
        let shares: Vec<Share> = self.shares.iter().zip(resident).map(renew).collect();
        let mut renewed = Self {
            common: build(in_common.max(1) + left, self.pages),
            shares,
            of_objects: self.of_objects.clone(),
            own: Vec::new(),
            spec: self.spec.clone(),
            random: self.random.clone(),
            ..*self
        };
        for page in (0..given).filter_map(&page_of) {
            renewed.named(page.page, page.place.object);
        }
        for page in pages() {
            // Where too many were read ahead for a smaller share, the page counts as used.
            let used = Reference { operation: Operation::Read, ..page };
            let admitted = renewed.admit(&page).or_else(|_| renewed.admit(&used));
            admitted.expect("there is room for a page that is resident");
        }
        renewed
    }

    fn admit(&mut self, reference: &Reference) -> Result<(), AllRefused> {
        match self.own_number(reference.page) {
            None => self.common.miss(reference, &mut NoVictims),
            Some((share, page)) => self.share(share).policy.miss(&Reference { page, ..*reference }, &mut NoVictims),
        }
    }

    /// Puts something around each policy.
    #[cfg(all(test, not(feature = "model-check")))]
    pub(crate) fn wrap(&mut self, around: impl Fn(Box<dyn AnyPolicy>) -> Box<dyn AnyPolicy>) {
        let of_shares = self.shares.iter_mut().map(|share| &mut share.policy);
        for policy in std::iter::once(&mut self.common).chain(of_shares) {
            let nothing = self.spec.build(&self.spec.setup(1, 1));
            *policy = around(std::mem::replace(policy, nothing));
        }
    }

    /// Takes all pages but one from each policy, which then are to be replaced: their numbers in the order in which they go.
    pub(crate) fn drain(&mut self) -> Vec<u32> {
        let mut order = Vec::new();
        let mut drain = |policy: &mut dyn AnyPolicy, numbers: &[u32]| {
            // A policy goes down to one page. That one has yet to go.
            let _ = policy.resize(1, &mut AllGo { numbers, order: &mut order });
        };
        drain(self.common.as_mut(), &[]);
        self.shares.iter_mut().for_each(|share| drain(share.policy.as_mut(), &share.numbers));
        order
    }
}

/// Of a policy that has room: none is asked for.
struct NoVictims;

impl Caller for NoVictims {
    fn evict(&mut self, _: u32) -> bool {
        false
    }

    fn forget(&mut self, _: u32) {}
}

/// Notes the order in which pages go, of which none is refused.
struct AllGo<'a> {
    /// The pool's numbers by the policy's; empty if they are the same.
    numbers: &'a [u32],
    order: &'a mut Vec<u32>,
}

impl Caller for AllGo<'_> {
    fn evict(&mut self, page: u32) -> bool {
        self.order.push(self.numbers.get(page as usize).copied().unwrap_or(page));
        true
    }

    fn forget(&mut self, _: u32) {}
}
