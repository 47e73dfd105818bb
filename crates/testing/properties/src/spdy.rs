//! SPDY frames from kubelets.

use binnacle_streams::spdy::{Frame, Reader, Writer};
use futures::FutureExt;

/// The maximum number of frames; since they are processed one by one, more frames test nothing new.
const MAX_FRAMES: usize = 1000;

/// The input is a kubelet's stream: it is read to its end or refused, and the frames, once written, read the same.
pub fn spdy(data: &[u8]) {
    let frames = read(data);
    let mut written = Vec::new();
    let mut writer = Writer::new(&mut written);
    for frame in &frames {
        // Headers of the allowed size fit into a frame, and the reader returns no larger ones.
        writer.write(frame).now_or_never().expect("memory does not wait").expect("what was read can be written");
    }
    let known = frames.into_iter().filter(|frame| *frame != Frame::Other).collect::<Vec<_>>();
    assert_eq!(read(&written), known, "written and read again");
}

fn read(data: &[u8]) -> Vec<Frame> {
    let mut reader = Reader::new(data);
    let mut frames = Vec::new();
    while frames.len() < MAX_FRAMES
        && let Ok(Some(frame)) = reader.next().now_or_never().expect("memory does not wait")
    {
        frames.push(frame);
    }
    frames
}
