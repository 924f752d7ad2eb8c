//! The policies, a line each: a file or a folder of this folder, and the type in it. Simple policies come before elaborate ones, off-line ones last.

use crate::policy::{Info, Policy};
use crate::registry::{Visitor, policies};

policies! {
    lru::Lru,
    fifo::Fifo,
    mru::Mru,
    random::Random,
    lfu::Lfu,
    clock::Clock,
    gclock::Gclock,
    lru_k::LruK,
    two_queue::TwoQueue,
    fbr::Fbr,
    lrfu::Lrfu,
    seq::Seq,
    eelru::Eelru,
    arc::AdaptiveReplacement,
    car::Car,
    lirs::Lirs,
    linux::Linux,
    ubm::Ubm,
    dulo::Dulo,
    mq::Mq,
    lru_sp::LruSp,
    clock_pro::ClockPro,
    sieve::Sieve,
    s3_fifo::S3Fifo,
    w_tinylfu::WTinyLfu,
    smq::Smq,
    opt::Opt,
    worst::Worst,
}
