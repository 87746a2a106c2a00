//! Rules about memory: its registration, and what happens to it while requests use it (class `Memory`).

macro_rules! memory {
    ($($before:tt)*) => { collect! { $($before)*

    Memlock "memlock" Memory Error:
        "{length} bytes cannot be locked: RLIMIT_MEMLOCK is {limit} bytes, {pinned} are in use",
        "a device pins registered memory, and the kernel counts it against this limit",
        "raise it: `ulimit -l unlimited`, memlock in limits.conf(5), LimitMEMLOCK= of a systemd unit, \
         --ulimit memlock=-1 of a container";
    RegNoMemory "reg-no-memory" Memory Error:
        "{length} bytes were not registered, although RLIMIT_MEMLOCK ({limit}) allows them",
        "the kernel or the device is out of memory or of memory regions ({regions} are registered)",
        "register fewer or larger regions, and check `rdma resource show` and `dmesg`";
    RegUnmapped "reg-unmapped" Memory Error:
        "{length} bytes at {addr} are not all mapped: nothing is mapped at {hole}",
        "only memory that the process has mapped can be registered",
        "check address and length; memory must stay mapped until it is deregistered";
    RegReadOnly "reg-read-only" Memory Error:
        "the memory at {hole} is mapped {rights} ({file}), and the access flags ask for {access}",
        "a device may write only to memory that the process may write to",
        "map it with PROT_READ | PROT_WRITE, or register it with access 0 or IBV_ACCESS_REMOTE_READ";
    RegFile "reg-file" Memory Error:
        "the memory at {hole} is a mapping of {file}, which has no pages that can be pinned",
        "the kernel cannot pin memory of a device, or of a file system that may move it",
        "copy it to ordinary memory, or register device memory through a dma-buf (ibv_reg_dmabuf_mr)";
    RegAccess "reg-access" Memory Error:
        "the access flags {access} lack IBV_ACCESS_LOCAL_WRITE",
        "remote write and remote atomic access need local write access (specification 11.2.8.2)",
        "add IBV_ACCESS_LOCAL_WRITE";
    RegLength "reg-length" Memory Error:
        "a region of {length} bytes at {addr} was requested",
        "the range is empty or wraps around the end of the address space",
        "check the length: a negative one becomes a huge unsigned number";
    CreateLimit "create-limit" Memory Error:
        "{member} = {asked}, and the device has at most {limit}",
        "the device cannot create such a large object",
        "request at most what ibv_query_device reports";
    DmRange "dm-range" Memory Error:
        "the access of {length} bytes at offset {offset} leaves the device memory, of {size} bytes, by \
         {excess} bytes",
        "device memory is as long as ibv_alloc_dm was asked for, and offsets begin at 0",
        "compare offset and length with it";
    ReceivesOverlap "receives-overlap" Memory Warning:
        "two receives (wr_id {first} and {second}) are posted that have {common} bytes at {addr} in common",
        "the second message overwrites the first, perhaps before the program has read it",
        "give each receive that is posted memory of its own";
    StackRegion "stack-region" Memory Error:
        "the region {region} is memory of the stack, of a function that has returned",
        "other functions use that memory now, and the device reads or overwrites their data",
        "register memory that lives longer: static, or from malloc";
    BufferChanged "buffer-changed" Memory Warning:
        "the data of the {operation} (wr_id {wr_id}), {length} bytes at {addr}, changed between the post and \
         the completion",
        "the device reads the data at any time until then, and again to repeat a packet: which data the peer \
         has got is not certain",
        "change or free a buffer only when the completion of its request was polled";
    UnfencedRead "unfenced-read" Memory Warning:
        "the {operation} (wr_id {wr_id}) sends memory at {addr} to which the {read} (wr_id {first}) is still \
         to write",
        "a request does not wait for the data of READs and atomic operations before it: the peer may get \
         what was in the memory before",
        "set IBV_SEND_FENCE in the request, or post it when the completion of the earlier one was polled";
    MemoryGone "memory-gone" Memory Error:
        "the memory at {addr} of the {operation} (wr_id {wr_id}) is not mapped any more",
        "it was freed or unmapped while it is registered",
        "deregister memory before it is freed, and free it only after all its requests have completed";

    } };
}
