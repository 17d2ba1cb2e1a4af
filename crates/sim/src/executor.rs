//! Runs one task at a time on one thread, in random order.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
};

use service::spawn::Work;

use crate::{process::SimService, world::SimWorld};

type TaskQueue = Arc<Mutex<Vec<u64>>>;

/// Runs all tasks spawned in a [`SimWorld`].
pub struct Executor {
    world: Arc<SimWorld>,
    tasks: BTreeMap<u64, SimTask>,
    next: u64,
    ready: TaskQueue,
}

struct SimTask {
    service: SimService,
    work: Work,
    waker: Arc<TaskWaker>,
}

/// Waker of a task. `queued` prevents a second entry of the task in the queue.
struct TaskWaker {
    task: u64,
    queued: AtomicBool,
    ready: TaskQueue,
}

fn lock(queue: &TaskQueue) -> MutexGuard<'_, Vec<u64>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            lock(&self.ready).push(self.task);
        }
    }
}

impl Executor {
    pub fn new(world: Arc<SimWorld>) -> Self {
        Self { world, tasks: BTreeMap::new(), next: 0, ready: TaskQueue::default() }
    }

    /// Runs one task, or advances time until one is ready. Returns `false` if no task becomes ready before `limit`.
    pub fn step(&mut self, limit: i64) -> bool {
        self.absorb();
        let chosen = {
            let mut ready = lock(&self.ready);
            match ready.len() {
                0 => None,
                1 => ready.pop(),
                many => {
                    let index = self.world.inner().random.index(many);
                    Some(ready.swap_remove(index))
                }
            }
        };
        let Some(id) = chosen else { return self.world.inner().advance(limit) };
        let Some(task) = self.tasks.get_mut(&id) else { return true };
        task.waker.queued.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&task.waker));
        if task.work.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            self.tasks.remove(&id);
        }
        let killed = self.world.inner().take_killed();
        for service in killed {
            self.end(service);
        }
        true
    }

    /// Drops all tasks of a process.
    fn end(&mut self, service: SimService) {
        self.absorb();
        let dead: Vec<u64> =
            self.tasks.iter().filter(|(_, task)| task.service == service).map(|(id, _)| *id).collect();
        for id in dead {
            self.tasks.remove(&id);
        }
    }

    fn absorb(&mut self) {
        let spawned = self.world.inner().take_spawned();
        for (service, work) in spawned {
            let id = self.next;
            self.next += 1;
            let waker = Arc::new(TaskWaker {
                task: id,
                queued: AtomicBool::new(false),
                ready: Arc::clone(&self.ready),
            });
            self.tasks.insert(id, SimTask { service, work, waker: Arc::clone(&waker) });
            waker.wake();
        }
    }

    pub fn clear(&mut self) {
        self.absorb();
        self.tasks.clear();
    }
}
