//! What the passes of one run share: settings, threads, and objects that are made once.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use rayon::prelude::*;

use crate::settings::Settings;

/// What all passes of a run share.
pub(crate) struct Shared<'a> {
    pub(crate) settings: &'a Settings,
    pool: OnceLock<Option<rayon::ThreadPool>>,
    store: Store,
}

/// Objects that are made once, by their types.
type Store = Arc<Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>>;

impl<'a> Shared<'a> {
    pub(crate) fn new(settings: &'a Settings) -> Self {
        Self {
            settings,
            pool: OnceLock::new(),
            store: Store::default(),
        }
    }

    /// The same objects under other settings.
    pub(crate) fn under<'b>(&self, settings: &'b Settings) -> Shared<'b> {
        Shared {
            store: self.store.clone(),
            ..Shared::new(settings)
        }
    }

    /// See [`PassCx::shared`].
    pub(crate) fn get<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let store = || self.store.lock().unwrap_or_else(|p| p.into_inner());
        let known = store().get(&TypeId::of::<T>()).cloned();
        if let Some(known) = known.and_then(|object| object.downcast().ok()) {
            return known;
        }
        let new = Arc::new(make());
        store().insert(TypeId::of::<T>(), new.clone());
        new
    }

    /// Maps items in parallel, unless this is a thread of another parallel run; results come in their order.
    pub(crate) fn map<T: Send, R: Send>(
        &self,
        items: Vec<T>,
        work: impl Fn(T) -> R + Sync + Send,
    ) -> Vec<R> {
        // A thread of another pool that waited here would work on other items of that pool, on the same stack.
        let own = self.pool.get().and_then(Option::as_ref);
        let own = own.is_some_and(|pool| pool.current_thread_index().is_some());
        let elsewhere = rayon::current_thread_index().is_some() && !own;
        if items.len() < 2 || self.settings.threads == 1 || elsewhere {
            return items.into_iter().map(work).collect();
        }
        let pool = self.pool.get_or_init(|| {
            let builder = rayon::ThreadPoolBuilder::new()
                .num_threads(self.settings.threads)
                .stack_size(16 << 20);
            builder.build().ok()
        });
        // What threads do for a pass whose time is measured counts for that pass.
        let account = crate::clock::account();
        let work = |item: T| match &account {
            Some(account) => crate::clock::measure(account.clone(), || work(item)),
            None => work(item),
        };
        match pool {
            Some(pool) => pool.install(|| items.into_par_iter().map(work).collect()),
            None => items.into_iter().map(work).collect(),
        }
    }
}
