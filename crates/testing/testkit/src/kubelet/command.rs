//! `exec` and `attach`: a process whose streams are those of a SPDY connection (`v4.channel.k8s.io`).

use std::collections::HashMap;
use std::process::Stdio;

use binnacle_streams::spdy::{Frame, Reader, Writer, header};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::process::Command;
use tokio::sync::mpsc;

use super::Shared;
use super::query::{FAREWELL, Query};

pub(super) async fn serve(
    connection: impl AsyncRead + AsyncWrite + Send + 'static,
    kind: &str,
    query: &Query,
    breaks_off: bool,
    shared: &Shared,
) {
    let (reader, writer) = split(connection);
    let mut reader = Reader::new(reader);
    let frames = write_frames(Writer::new(writer));
    let tty = query.get("tty").is_some();
    let expected = ["input", "output", "tty"].iter().filter(|name| query.get(name).is_some()).count()
        + usize::from(query.get("error").is_some() && !tty)
        + 1;
    let mut streams: HashMap<String, u32> = HashMap::new();
    while streams.len() < expected {
        let Ok(Some(frame)) = reader.next().await else { return };
        if let Frame::Open { stream, headers, .. } = frame {
            streams.insert(header(&headers, "streamtype").unwrap().to_owned(), stream);
            let _ = frames.send(Frame::Reply { stream, fin: false }).await;
        }
    }
    let words: Vec<&str> = if kind == "attach" { vec!["cat"] } else { query.all("command").collect() };
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(&shared.directory).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let status = serde_json::json!({
                "metadata": {}, "status": "Failure", "reason": "InternalError", "message": error.to_string()
            });
            return finish(&frames, &streams, &status, &mut reader).await;
        }
    };
    let mut stdin = streams.contains_key("stdin").then(|| child.stdin.take().unwrap());
    drop(child.stdin.take());
    let pumped = |kind: &str| streams.get(kind).copied();
    let stdout = tokio::spawn(pump(child.stdout.take().unwrap(), pumped("stdout"), frames.clone(), breaks_off));
    let stderr = tokio::spawn(pump(child.stderr.take().unwrap(), pumped("stderr"), frames.clone(), false));
    let ended = async {
        if stdout.await.unwrap() {
            // Processes that the command started may keep this pipe open, and so the connection.
            stderr.abort();
            return None;
        }
        let _ = stderr.await;
        Some(child.wait().await.unwrap())
    };
    tokio::pin!(ended);
    let status = loop {
        // A frame is read completely before the next one is awaited, so nothing is lost between the two.
        tokio::select! {
            status = &mut ended => match status {
                Some(status) => break status,
                None => return,
            },
            frame = reader.next() => match frame {
                Ok(Some(Frame::Data { stream, fin, data })) if streams.get("stdin") == Some(&stream) => {
                    if let Some(stdin) = &mut stdin {
                        let _ = stdin.write_all(&data).await;
                        let _ = stdin.flush().await;
                    }
                    if fin {
                        stdin = None;
                    }
                }
                Ok(Some(Frame::Data { stream, data, .. })) if streams.get("resize") == Some(&stream) => {
                    shared.saw(format!("resize {}", String::from_utf8_lossy(&data).trim_end()));
                }
                Ok(Some(Frame::Ping(id))) => drop(frames.send(Frame::Ping(id)).await),
                Ok(Some(Frame::GoAway)) | Ok(None) | Err(_) => {
                    // The client has disconnected: dropping the process handle kills the command.
                    shared.saw("client gone".to_owned());
                    return;
                }
                Ok(Some(_)) => {}
            },
        }
    };
    let status = match status.code() {
        Some(0) => serde_json::json!({"metadata": {}, "status": "Success"}),
        code => serde_json::json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": "command terminated with non-zero exit code",
            "details": {"causes": [{"reason": "ExitCode", "message": code.unwrap_or(137).to_string()}]}
        }),
    };
    finish(&frames, &streams, &status, &mut reader).await;
}

/// Sends the outcome, ends all streams, and waits for the client to disconnect.
async fn finish<R: AsyncRead + Unpin>(
    frames: &mpsc::Sender<Frame>,
    streams: &HashMap<String, u32>,
    status: &serde_json::Value,
    reader: &mut Reader<R>,
) {
    for (kind, stream) in streams {
        let data = if kind == "error" { Bytes::from(status.to_string()) } else { Bytes::new() };
        let _ = frames.send(Frame::Data { stream: *stream, fin: true, data }).await;
    }
    let gone = async { while matches!(reader.next().await, Ok(Some(_))) {} };
    let _ = tokio::time::timeout(FAREWELL, gone).await;
}

/// Forwards the output of a process; returns true if the session is to be broken.
async fn pump(
    mut output: impl AsyncRead + Unpin,
    stream: Option<u32>,
    frames: mpsc::Sender<Frame>,
    breaks_off: bool,
) -> bool {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = output.read(&mut buffer).await {
        let Some(stream) = stream else { continue };
        let data = Bytes::copy_from_slice(&buffer[..read]);
        if frames.send(Frame::Data { stream, fin: false, data }).await.is_err() {
            break;
        }
        if breaks_off {
            return true;
        }
    }
    false
}

/// Starts a task that writes all frames, so that those of several streams do not mix.
pub(super) fn write_frames<W: AsyncWrite + Unpin + Send + 'static>(mut writer: Writer<W>) -> mpsc::Sender<Frame> {
    let (sender, mut frames) = mpsc::channel(8);
    tokio::spawn(async move {
        while let Some(frame) = frames.recv().await {
            if writer.write(&frame).await.is_err() {
                return;
            }
        }
        let _ = writer.shutdown().await;
    });
    sender
}
