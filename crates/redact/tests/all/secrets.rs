//! Redacted and unchanged text, for any boundaries of chunks.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use redact::{Redactor, Rules, Tally};

const KNOWN: &str = "correct/horse+battery \"staple\"\u{e9}?";

fn rules() -> Arc<Rules> {
    static RULES: LazyLock<Arc<Rules>> = LazyLock::new(|| {
        let long = "0123456789abcdef-ghijklmnopq/".repeat(100);
        Arc::new(Rules::new([KNOWN, "swordfish-1", "short", "12345678", &long]).unwrap())
    });
    RULES.clone()
}

fn redacted(rules: &Arc<Rules>, chunks: &[&[u8]]) -> (Vec<u8>, Tally) {
    let (mut redactor, mut out) = (Redactor::new(Arc::clone(rules)), Vec::new());
    chunks.iter().for_each(|chunk| redactor.push(chunk, &mut out));
    let tally = redactor.finish(&mut out);
    (out, tally)
}

fn clean(text: &str) -> String {
    String::from_utf8(redacted(&rules(), &[text.as_bytes()]).0).unwrap()
}

/// Split, so that secret scanners do not report them.
fn fake(begin: &str, length: usize) -> String {
    let rest = "Ab3dE5fGh1JkLmN0pQrStUvWxYz2468ACEGIKMOQSUWYbdfhjlnprtvxz".chars().cycle();
    begin.chars().chain(rest.take(length)).collect()
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[test]
fn only_tokens_are_removed() {
    let aws = format!("{}{}", "AKIA", "ABCDEFGH23456789");
    let jwt = format!("{}.{}.{}", fake("eyJ", 20), fake("eyJ", 400), fake("", 43));
    let tokens = [
        (fake("ghp_", 36), "git-token"),
        (fake("gho_", 36), "git-token"),
        (fake("ghs_", 36), "git-token"),
        (fake("github_pat_", 82), "git-token"),
        (fake("AIza", 35), "google-api-key"),
        (fake("ya29.", 120), "google-token"),
        (aws, "aws-key"),
        (fake("xoxb-", 40), "slack-token"),
        (fake("nvapi-", 64), "ngc-key"),
        (fake("hf_", 34), "hugging-face-token"),
        (fake("sk-ant-", 60), "api-key"),
        (fake("sk_live_", 24), "api-key"),
        (fake("rk_live_", 24), "api-key"),
        (fake("npm_", 36), "registry-token"),
        (fake("pypi-AgEIcHlwaS5vcmc", 60), "registry-token"),
        (fake("hvs.", 24), "vault-token"),
        (jwt, "jwt"),
    ];
    for (token, kind) in tokens {
        for (before, after) in
            [("", ""), ("using ", " now\n"), ("\"", "\","), ("a\\n", "\\n"), ("(", ")"), ("%3D", "&x")]
        {
            let text = format!("{before}{token}{after}");
            assert_eq!(clean(&text), format!("{before}[redacted:{kind}]{after}"), "{text}");
        }
    }
}

#[test]
fn tokens_in_base64_are_removed() {
    for token in [fake("ghp_", 36), fake("nvapi-", 64), fake("AIza", 35), fake("xoxb-", 40)] {
        for before in ["", "x", "xy"] {
            let text = base64(&format!("{before}{token}"));
            let cleaned = clean(&text);
            assert!(cleaned.contains("[redacted:") && cleaned.len() < 40, "{before}{token}: {cleaned}");
        }
    }
    let key = format!("-----BEGIN {0}-----\n{1}\n-----END {0}-----\n", "PRIVATE KEY", fake("", 1600));
    for before in ["", "x", "xy"] {
        let cleaned = clean(&format!("data: {} end", base64(&format!("{before}{key}"))));
        assert!(cleaned.contains("[redacted:private-key]") && cleaned.len() < 60, "{cleaned}");
    }
}

#[test]
fn values_of_assignments_are_removed() {
    for (text, expected) in [
        ("HF_TOKEN=abc\n", "HF_TOKEN=[redacted:assignment]\n"),
        ("A=1\nDB_PASSWORD=two words, and more\nB=2", "A=1\nDB_PASSWORD=[redacted:assignment]\nB=2"),
        ("+ WANDB_API_KEY=abc mpirun -np 8", "+ WANDB_API_KEY=[redacted:assignment] mpirun -np 8"),
        ("password: hunter2 ok", "password: [redacted:assignment] ok"),
        (r#"{"db_secret": "a\"b\\", "n": 1}"#, r#"{"db_secret": "[redacted:assignment]", "n": 1}"#),
        (r#""{\"api_key\":\"a\\\"b\\\\\",\"n\":1}""#, r#""{\"api_key\":\"[redacted:assignment]\",\"n\":1}""#),
        (r#"["-e","X_TOKEN=abc","y"]"#, r#"["-e","X_TOKEN=[redacted:assignment]","y"]"#),
        (r#""X_TOKEN=abc\nY=1""#, r#""X_TOKEN=[redacted:assignment]\nY=1""#),
        (r#""X_TOKEN=abc\\""#, r#""X_TOKEN=[redacted:assignment]""#),
        ("login --password hunter2 --verbose", "login --password [redacted:assignment] --verbose"),
        (r#"["--token","hunter2"]"#, r#"["--token","[redacted:assignment]"]"#),
        ("aws_secret_access_key = wJalrXUt/x", "aws_secret_access_key = [redacted:assignment]"),
        ("export PGPASSWORD='two words'; psql", "export PGPASSWORD='[redacted:assignment]'; psql"),
        (
            "> Authorization: Basic dXNlcjpw\r\n> Accept: */*",
            "> Authorization: [redacted:header]\r\n> Accept: */*",
        ),
        ("-H 'Authorization: Bearer a.b.c' http://x", "-H 'Authorization: [redacted:header]' http://x"),
        ("Bearer abcdefgh12345678 sent", "Bearer [redacted:bearer-token] sent"),
        ("https://bob:s3cret@host/p", "https://bob:[redacted:url-password]@host/p"),
        ("https://oauth2tokenoauth2token@host", "https://[redacted:url-password]@host"),
        (
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=aGVsbG8gd29ybGQhISE=;x",
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=[redacted:assignment]",
        ),
        (
            "<SecretAccessKey>wJalrXUtnFEMI/K7</SecretAccessKey><Code>1</Code>",
            "<SecretAccessKey>[redacted:assignment]</SecretAccessKey><Code>1</Code>",
        ),
        (
            "+ docker login -u bob -p hunter2 host",
            "+ docker login -u bob -p [redacted:command-password] host",
        ),
        (
            "helm registry login h --password=hunter2\n",
            "helm registry login h --password=[redacted:command-password]\n",
        ),
        ("machine h login bob password hunter2", "machine h login bob password [redacted:command-password]"),
        ("sshpass -p hunter2 ssh host", "sshpass -p [redacted:command-password] ssh host"),
        ("mysql -uroot -phunter2 db", "mysql -uroot -p[redacted:command-password] db"),
        ("$ curl -sS -u bob:s3cret https://h/p", "$ curl -sS -u bob:[redacted:command-password] https://h/p"),
        ("curl --user 'bob:s3cret' x", "curl --user 'bob:[redacted:command-password]' x"),
    ] {
        assert_eq!(clean(text), expected, "{text}");
        assert_eq!(clean(expected), expected, "a second pass finds no secret");
    }
}

#[test]
fn text_similar_to_secrets_is_kept() {
    for text in [
        "max_tokens: 5, tokens = 6, tokenizer=abc",
        "use_token=false pass_key=1 _key: 12\n",
        "std::token::value secret::x",
        "ssh://git@github.com/x https://host/a@b http://10.0.0.1:8080/x",
        "the bearer of bad news, Bearer capabilities",
        "mkdir -p a/b; srun -p batch x; ssh -p 22 h; docker login --password-stdin h; curl -u bob https://h",
        "docker login -p $PASSWORD h; last login on tty -q; <key>Name</key> MIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBa",
        "ghp_short hf_hub_download AKIA mAKIAABCDEFGH23456789x eyJhbGci.x",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        r#"{"password": null, "token": 12, "key": {"a": 1}, "env": {"A": "b"}}"#,
        "short 12345678 1.2345678",
        "NCCL INFO comm 0x55d0c1 rank 0 nranks 8 cudaDev 0 busId 7000 commId 0x1d0f2 - Init COMPLETE",
        "       65536         16384     float     sum      -1    57.03    1.15    2.15      0    51.59    1.27    2.38      0",
    ] {
        assert_eq!(clean(text), text);
    }
}

#[test]
fn known_values_are_removed_in_every_encoding() {
    let quoted = serde_json::to_string(KNOWN).unwrap();
    let percent =
        percent_encoding::utf8_percent_encode(KNOWN, percent_encoding::NON_ALPHANUMERIC).to_string();
    let mut texts = vec![
        KNOWN.to_owned(),
        quoted[1..quoted.len() - 1].to_owned(),
        percent.replace("%2D", "-"),
        percent.to_lowercase(),
    ];
    for before in ["", "u", "us", "user:"] {
        let text = base64(&format!("{before}{KNOWN} and so on"));
        let url = text.replace('+', "-").replace('/', "_");
        // The program `base64` wraps lines, at any width.
        for width in [1000, 76, 64, 20] {
            let lines: Vec<_> = text.as_bytes().chunks(width).map(String::from_utf8_lossy).collect();
            texts.push(lines.join("\n"));
        }
        texts.push(url);
    }
    for text in texts {
        let (out, tally) = redacted(&rules(), &[b"x ", text.as_bytes(), b" y"]);
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("[redacted:known-value]"), "{text:?} became {out:?}");
        assert_eq!(tally.by_kind().get("known-value"), Some(&1), "{text:?}");
        let left = out.replace("[redacted:known-value]", "");
        assert!(left.len() < 40, "{text:?} became {out:?}");
    }
    let long = "0123456789abcdef-ghijklmnopq/".repeat(100);
    assert_eq!(clean(&format!("<{long}>")).replace("[redacted:known-value]", ""), "<>");
}

/// Hexadecimal digits in groups of `digits`, separated by `between`.
fn bytes(hex: &str, digits: usize, between: &str) -> String {
    let groups = hex.as_bytes().chunks(digits).map(|group| std::str::from_utf8(group).unwrap());
    groups.collect::<Vec<_>>().join(between)
}

/// Colour codes of a terminal, lines wrapped by a narrow one, and hexadecimal dumps.
#[test]
fn known_values_are_removed_across_line_breaks_and_in_dumps() {
    let hex: String = "swordfish-1".bytes().map(|byte| format!("{byte:02x}")).collect();
    for text in [
        "sword\nfish-1".to_owned(),
        "sword\r\nfish-\n1".to_owned(),
        "sword\u{1b}[31mfish-1".to_owned(),
        "sword\u{1b}[0m\u{1b}[1;32mfis\u{1b}[Kh-1".to_owned(),
        hex.to_uppercase(),
        format!("{}\n{}", &hex[..10], &hex[10..]),
        bytes(&hex, 2, " "),
        bytes(&hex, 2, ":"),
        bytes(&hex, 4, " "),
        format!("%{}", bytes(&hex, 2, "%")),
        format!("%{}", bytes(&hex.to_uppercase(), 2, "%")),
        hex,
    ] {
        assert_eq!(clean(&format!("<{text}>")), "<[redacted:known-value]>", "{text:?}");
    }
}

/// Keys without their first line. Made for this test by `openssl genpkey` and `ssh-keygen`, cut, and used nowhere.
#[test]
fn a_private_key_is_removed_even_without_its_header() {
    let line = fake("", 64);
    for begins in [
        "MIIEvAIBADANBgkqhkiG9w0BAQEFAASCBKYwggSiAgEA",
        "MIIEpAIBAAKCAQEA",
        "MHcCAQEEI",
        "MIGHAgEAMBMGByqGSM49",
        "MC4CAQAwBQYDK2VwBCIEI",
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU",
    ] {
        let text = format!("{begins}{line}\n{line}\n-----");
        assert_eq!(clean(&text), "[redacted:private-key]", "{begins}");
    }
}

#[test]
fn private_keys_are_removed_completely() {
    let body: Vec<_> = (0..26).map(|line| fake("", 64 - line % 2)).collect();
    let label = "RSA PRIVATE KEY";
    for end in ["\n", "\\n", "\n[1,0]<stdout>:"] {
        let key = format!("-----BEGIN {label}-----{end}{}{end}-----END {label}-----", body.join(end));
        assert_eq!(clean(&format!("a{key}{end}b")), format!("a[redacted:private-key]{end}b"));
    }
    let cut = format!("-----BEGIN {label}-----\n{}", body.join("\n"));
    assert_eq!(clean(&cut), "[redacted:private-key]");
    let endless = format!("{cut}\n# out of bounds: {}", "\n".repeat(40_000));
    assert!(clean(&endless).starts_with("[redacted:private-key]# out of bounds: \n"));
}

/// Logs are read while they grow: a line is passed on as soon as it is complete.
#[test]
fn a_line_without_a_secret_is_not_held_back() {
    let mut redactor = Redactor::new(rules());
    for line in ["Step 1: compiling\n", "100 %\n", "waiting for nodes ...\n"] {
        let mut out = Vec::new();
        redactor.push(line.as_bytes(), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), line);
    }
}

#[test]
fn endless_secrets_use_bounded_memory() {
    let rules = rules();
    for begin in [
        "ghp_".to_owned(),
        "X_TOKEN=".to_owned(),
        "\"password\":\"".to_owned(),
        format!("-----BEGIN {}-----", "PRIVATE KEY"),
    ] {
        let (mut redactor, mut out) = (Redactor::new(Arc::clone(&rules)), Vec::new());
        redactor.push(begin.as_bytes(), &mut out);
        for _ in 0..1000 {
            redactor.push(&[b'a'; 4096], &mut out);
            assert!(out.len() < 20_000, "{begin}: {}", out.len());
        }
        redactor.push(b" and\n\" on", &mut out);
        assert_eq!(redactor.finish(&mut out).total(), 1, "{begin}");
        assert!(out.ends_with(b"on"), "{begin}");
    }
}

fn environment() -> String {
    let token = fake("hf_", 34);
    format!(
        r#"{{"version":3,"args":["\/b\/all_reduce_perf","-b","1M"],"env":["NCCL_DEBUG=INFO","PATH=\/bin:\/usr\/bin","EMPTY=","HF_TOKEN={token}","PS1=\\u \"x\" ","NCCL_X={token}","SLURM_JWT=abc","odd","DB=postgres:\/\/u:pw@h","LD_LIBRARY_PATH=\/lib"],"nccl_version":22809,"config":{{"nthreads":1,"ngpus":4,"devices":[{{"rank":0,"group":0,"pid":2121,"hostname":"vm","device":0,"device_hex":"0000:00:06","device_info":"NVIDIA H200"}}]}},"results":[{{"size":1048576,"count":262144,"type":"float","redop":"sum","root":"    -1","out_of_place":{{"time":46.48,"alg_bw":22.55,"bus_bw":33.83,"nwrong":0.0}},"in_place":{{"time":44.46,"alg_bw":23.58,"bus_bw":35.37,"nwrong":0.0}},"actual_iterations":20}}],"out_of_bounds":{{"count":0,"okay":"true"}},"average_bus_bandwidth":{{"bandwidth":187.8,"okay":"unchecked"}},"errors":[""]}}"#
    )
}

#[test]
fn the_environment_block_keeps_fields_that_explain_a_measurement() {
    let before = environment();
    let after = clean(&before);
    let document: serde_json::Value = serde_json::from_str(&after).unwrap();
    assert_eq!(
        document["env"],
        serde_json::json!([
            "NCCL_DEBUG=INFO",
            "PATH=/bin:/usr/bin",
            "EMPTY=",
            "HF_TOKEN=[redacted:environment]",
            "PS1=[redacted:environment]",
            "NCCL_X=[redacted:hugging-face-token]",
            "SLURM_JWT=[redacted:environment]",
            "odd",
            "DB=[redacted:environment]",
            "LD_LIBRARY_PATH=/lib"
        ])
    );
    let block = |text: &str| {
        let (begin, end) = (text.find("\"env\"").unwrap(), text.find("\"nccl_version\"").unwrap());
        (text[..begin].to_owned(), text[end..].to_owned())
    };
    assert_eq!(block(&before), block(&after), "the block is unchanged");
    let read = |text: &str| nccl::read(text.as_bytes()).unwrap();
    assert_eq!(read(&before), read(&after));
    assert_eq!(read(&after).tables[0].rows.len(), 1);

    let printed =
        serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(&before).unwrap()).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&clean(&printed)).unwrap(), document);
    // A killed run leaves an incomplete object.
    for length in 0..before.len() {
        let cut = clean(&before[..length]);
        assert!(!cut.contains("hf_Ab3"), "{cut}");
    }
}

/// Every log in a folder and its subfolders.
fn logs(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            logs(&path, found);
        } else if path.extension().is_some_and(|end| end == "log") {
            found.push(path);
        }
    }
}

#[test]
fn logs_without_secrets_pass_unchanged() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    logs(&root.join("tests/data"), &mut found);
    assert!(!found.is_empty());
    let own = found.len();
    logs(&root.join("../shared/nccl-samples"), &mut found);
    if found.len() == own {
        println!("SKIPPED: no folder of logs next to the repository");
    }
    let rules = rules();
    for path in &found {
        let log = std::fs::read(path).unwrap();
        let (out, tally) = redacted(&rules, &[&log]);
        let read = |log: &[u8]| nccl::read(log).unwrap();
        assert_eq!(read(&out), read(&log), "{}", path.display());
        let json = log.trim_ascii_start().starts_with(b"{");
        assert!(json || out == log, "{}: {:?}", path.display(), tally.by_kind());
    }
    println!("{} logs", found.len());
}

/// Complete and truncated parts of the rules' patterns, in random order.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let key = format!("-----BEGIN {0}-----\\nMIIE\n-----END {0}-----", "PRIVATE KEY");
    let parts = vec![
        fake("ghp_", 36),
        fake("hf_", 30),
        fake("eyJ", 20),
        ".".to_owned(),
        fake("", 20),
        "HF_TOKEN=".to_owned(),
        "\"password\": \"".to_owned(),
        "\"".to_owned(),
        "\\".to_owned(),
        "\n".to_owned(),
        " ".to_owned(),
        "://u:".to_owned(),
        "@".to_owned(),
        "Authorization: ".to_owned(),
        "Bearer ".to_owned(),
        key,
        "\"env\":[\"".to_owned(),
        "NCCL_X=".to_owned(),
        "\",\"".to_owned(),
        "]".to_owned(),
        "swordfish-1".to_owned(),
        base64("swordfish-1 swordfish-1"),
        base64(KNOWN),
        KNOWN.to_owned(),
        base64(&fake("ghp_", 36)),
        "-----BEGIN ".to_owned(),
        "--token ".to_owned(),
        "=".to_owned(),
        environment(),
    ];
    // Some parts are complete, and some are truncated.
    let part = (proptest::sample::select(parts), 0..80usize).prop_map(|(part, length)| {
        let length = if length > 60 { part.len() } else { length.min(part.len()) };
        part.as_bytes()[..length].to_vec()
    });
    proptest::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn the_chunks_of_the_stream_do_not_affect_the_result(text in pieces(), cuts in proptest::collection::vec(0usize..1200, 0..12), single in any::<bool>()) {
        let rules = rules();
        let whole = redacted(&rules, &[&text]);
        let mut cuts: Vec<_> = if single { (0..text.len()).collect() } else { cuts };
        cuts.retain(|cut| *cut < text.len());
        cuts.sort_unstable();
        cuts.insert(0, 0);
        cuts.push(text.len());
        let chunks: Vec<_> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        prop_assert_eq!(&redacted(&rules, &chunks), &whole);
        let again = redacted(&rules, &[&whole.0]).0;
        prop_assert!(memchr::memmem::find(&again, b"swordfish-1").is_none());
    }
}
